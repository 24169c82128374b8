"""The prose of the API reference."""

from typing import Final

TITLE: Final = "Agent Execution Service"
INTRODUCTION: Final = """
Create, validate and run AI agents.

1. An **agent configuration** defines an agent's type, system prompt, model settings, tools and knowledge bases.
2. A **session** is a conversation with an agent, including its history.
3. **Executing** a message in a session returns the agent's reply.

Request bodies are JSON or YAML of at most 512 KiB. Responses are JSON. Paths end with a slash, which GET requests can
omit. Timestamps are UTC with six fractional digits, so they sort as strings. IDs are opaque.

Send your API key in the `x-api-key` header or as `Authorization: Bearer`. Alternatively, send a bearer token that you
created with the key (`POST /auth/token/`). Web pages can send a public key in the query: the `connection_key` of a
connection or the `agent_key` of a public agent. The key must allow the page's origin. Public keys give access to
sessions with their agent, including artifacts and events.

Every response has an `X-Correlation-ID`. To find all events of a request, send your own ID. To retry a write safely
after a 503 or 504, send it with the same `Idempotency-Key`.

Each session has a **WebSocket**, `WS /api/v1/ws/sessions/{session_id}/`, where you send messages to the agent and
receive the session's events. [asyncapi.json](../asyncapi.json) describes its messages and all events of the service.
"""
TAGS: Final = {
    "Agents": "Stored agents, their versions, and validation of configurations.",
    "Sessions": "Conversations with agents.",
    "Runtime": "Messages, turns and their actions.",
    "Events": "The company's timeline: all events, in order.",
    "Artifacts": "Files in a session: uploads, and files created by its agent.",
    "Files": "The company's documents and collections.",
    "Knowledge bases": "Documents made searchable for agents.",
    "Models and tools": "The models and tools that agents can use.",
    "Toolsets": "Custom tools, and secrets for their headers.",
    "Webhooks": "URLs that receive your events.",
    "Usage": "Usage and cost of turns, and budgets.",
    "Access": "API keys, tokens and connections, and your own identity.",
    "Operations": "Health, lag and dead-lettered messages, for operators.",
}
CORRELATION_IN: Final = "The correlation ID of all events of this request. Generated if omitted."
CORRELATION_OUT: Final = "The request's correlation ID."
LOCATION: Final = "The URL of the created resource."
CHALLENGES: Final = "The supported authentication methods."
RETRY_AFTER: Final = "The number of seconds to wait before a retry."
EXECUTE: Final = """
Returns the agent's reply. A session's turns run one at a time, in the order in which they were accepted. Closing the
connection doesn't stop a turn.

* By default, the call waits up to 120 s for the reply, or up to N seconds with `Prefer: wait=N` (at most 600). If the
  turn takes longer, it continues, and the call returns 202 with the `Location` of the turn.
* `Prefer: respond-async` returns 202 as soon as the turn is durably queued.
* If the turn waits for an approval or a client tool's result, the call immediately returns 202 with the
  `required_actions`. The turn resumes once they're resolved. Send the request again with the same
  `Idempotency-Key` to get the reply.
* If an earlier turn is waiting, the new turn is `queued`: the call immediately returns 202. `blocked_by` contains the
  waiting turn and its `required_actions`.
* `Accept: text/event-stream` streams the turn's events: `turn.started`, `turn.output_text.delta`,
  `turn.tool_call.completed` and others. The last event is `turn.completed`, `turn.failed` or `turn.cancelled`, with the
  final text. The stream stays open while the turn is waiting. If the connection is lost, resume the stream at
  `…/turns/{turn_id}/events/`; `Location` is the turn's URL.
""".strip()
RESOLVE: Final = """
Resolves one of the `required_actions`. For an `approval`, send a `decision`, which requires the scope
`runtime:approve`. An approved call runs with exactly the arguments shown. For a `tool_result`, send the call's `output`
or `error`, which requires `runtime:execute`. The turn resumes when its last action is resolved.

The first answer counts. Repeating it returns 200. A different answer returns 409, as does any new answer after the
action has expired or its turn has ended.
""".strip()
TURN_EVENTS: Final = """
Streams the events of a turn from its start to its terminal event, including its text so far. Each event has an `id:`.
To resume this stream or the stream of `execute`, send the last event's ID as `Last-Event-ID`. No event is lost or
repeated, whichever replica you reach.

A piece of text has an `attempt`, a `step`, and its `offset` in the step's text. After `turn.restarted`, discard the
text that earlier attempts sent for steps after `resumed_from_step`. The text of the last step is the reply.
""".strip()
TIMELINE: Final = """
Returns the company's events from the last 30 days, oldest first. Events of other users' private sessions require a
`company:…` scope. With a public key, specify one of its sessions as `session_id`.

* `position` is an event's number in the company's timeline and never changes. To continue, pass the previous page's
  `next` as `after`. While `has_more` is true, a page can be short or even empty. `order=desc` returns the newest events
  first; to continue, pass `next` as `before`.
* `Accept: text/event-stream` streams events. The stream starts after the position in `after` or `Last-Event-ID`;
  without either, it sends only new events. `id:` is the position, `event:` the type, and `data:` the whole event.
""".strip()
TIMELINE_EVENTS: Final = (
    'id: 17\nevent: turn.completed\ndata: {"id": "…", "position": 17, "type": "turn.completed",'
    ' "source": "/aes/runtime", "subject": "…", "sequence": 2, "data": {"success": true}}\n\n: keep-alive\nid: 18\n\n'
)
EVENTS: Final = (
    'id: 1.1.1.0\nevent: turn.started\ndata: {"turn_id": "…", "session_id": "…", "attempt": 1}\n\n'
    "id: 1.1.1.3\nevent: turn.output_text.delta\n"
    'data: {"turn_id": "…", "attempt": 1, "step": 1, "offset": 0, "text": "Hel"}\n\n'
    'id: 2.1.1.0\nevent: turn.completed\ndata: {"success": true, "response": {"content": "Hello."}}\n\n'
)
