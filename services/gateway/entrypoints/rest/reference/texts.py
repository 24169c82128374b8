"""Texts of the reference."""

from typing import Final

TITLE: Final = "Agent Execution Service"
INTRODUCTION: Final = """
Create, validate and run AI agents.

1. An **agent configuration** names an agent type, a system prompt, model settings, tools and knowledge bases.
2. A **session** is a conversation with an agent. It keeps its history.
3. **Executing** a message in a session returns the agent's reply.

Request bodies are JSON or YAML, at most 512 KiB; responses are JSON. Every path ends with a slash, which reads may
omit. Timestamps are UTC with six fractional digits, so that they sort as strings. IDs are opaque.

Send your API key in the `x-api-key` header or as `Authorization: Bearer`, or a bearer token created with it
(`POST /auth/token/`). Web pages can use a public key in the query, the `connection_key` of a connection or the
`agent_key` of a public agent, from an origin that the key allows: for sessions with its agent, their artifacts and
their events.

Every response carries `X-Correlation-ID`; send your own to find all events of a request. Send an
`Idempotency-Key` with a write to retry it safely after a 503 or 504.

A **WebSocket** per session, `WS /api/v1/ws/sessions/{session_id}/`, carries messages to the agent and all events of the
session. [asyncapi.json](../asyncapi.json) describes its messages, and all events of the service.
"""
TAGS: Final = {
    "Agents": "Stored agents, their versions, and the validation of configurations.",
    "Sessions": "Conversations with agents.",
    "Runtime": "Executing messages, the history, the state of turns.",
    "Events": "The company's timeline: all events, in order.",
    "Artifacts": "Files of a session: uploads, and files created by its agent.",
    "Files": "The company's documents and collections.",
    "Knowledge bases": "Documents made searchable for agents.",
    "Catalogues": "What agents can be built from.",
    "Toolsets": "Custom tools, and the secrets in their headers.",
    "Webhooks": "Your addresses that receive events.",
    "Usage": "What turns consumed and cost, and budgets.",
    "Access": "API keys, tokens, connections and the caller.",
    "Operations": "Health, lag and dead letters, for operators.",
}
CORRELATION_IN: Final = "Your label for all events of this request; generated if you send none."
CORRELATION_OUT: Final = "The request's label."
LOCATION: Final = "The address of the created resource."
CHALLENGES: Final = "The ways to authenticate."
RETRY_AFTER: Final = "Seconds to wait before a retry."
EXECUTE: Final = """
Runs the agent on a message and returns its reply. Turns of a session run one at a time, in the order in which
they were accepted; closing the connection never stops one.

* By default the call waits up to 120 s for the reply, with `Prefer: wait=N` up to N seconds (600 at most). A turn
  that takes longer continues: the call returns 202 with the `Location` of the turn.
* `Prefer: respond-async` returns 202 as soon as the turn is durably queued.
* A turn that needs an answer from outside is `waiting`: the call immediately returns 202 with its `required_actions`.
  It resumes once they are resolved; the same call with the same `Idempotency-Key` then returns the reply.
* A turn behind a waiting one is `queued`: the call immediately returns 202, and `blocked_by` names the waiting turn
  and its `required_actions`.
* `Accept: text/event-stream` streams the turn's events: `turn.started`, `turn.output_text.delta`,
  `turn.tool_call.completed`, …; `turn.completed`, `turn.failed` or `turn.cancelled` is the last one. Its text is
  authoritative. The stream stays open while the turn is waiting. `Location` names the turn; if the connection is
  lost, resume the stream at `…/turns/{turn_id}/events/`.
""".strip()
RESOLVE: Final = """
Answers an action of `required_actions`. An `approval` takes a `decision`, and the scope `runtime:approve`: an
approved call runs with exactly the arguments shown. A `tool_result` takes the `output` or the `error` of the
call, and `runtime:execute`. The turn resumes when its last action is resolved.

The first answer counts: sending it again returns 200, a different one 409. An answer after the action has expired or
its turn has ended also returns 409.
""".strip()
TURN_EVENTS: Final = """
Streams all events of a turn that you may read, from its start to its terminal event. They include its text so far, and
each has an `id:`. To resume after an event of this stream or of `execute`'s, send its id as `Last-Event-ID`. On any
replica, no event is lost or repeated.

Pieces of text belong to an `attempt` and a `step`, and stand at an `offset` there. After `turn.restarted`, discard the
text of the attempt before. The text of the last step is the reply.
""".strip()
TIMELINE: Final = """
The company's events of the last 30 days, oldest first. You need a `company:…` scope for those of other users' private
sessions. A public key sees the events of one of its own sessions, named by `session_id`.

* `position` counts the company's events and never changes. Continue with `after`, the `next` of the previous page. A
  page may be short, even empty, while `has_more` is true. `order=desc` reads from the end, newest first; continue with
  `before`.
* `Accept: text/event-stream` follows the timeline from `after` or `Last-Event-ID`, by default from now. `id:` is the
  position, `event:` the type, `data:` the whole event.
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
