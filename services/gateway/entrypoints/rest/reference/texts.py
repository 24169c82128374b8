"""The words of the reference."""

from typing import Final

TITLE: Final = "Agent Execution Service"
INTRODUCTION: Final = """
Create, validate and run AI agents.

1. An **agent configuration** names an agent type, a system prompt, model settings, tools and knowledge bases.
2. A **session** is a conversation with an agent. It keeps its history.
3. **Executing** a message in a session answers with the agent's reply.

Request bodies are JSON or YAML, at most 512 KiB; answers are JSON. Every path ends with a slash, which reads may leave
out. Timestamps are UTC with six fractional digits, so that they sort as strings. Ids are opaque.

Send your API key in the `x-api-key` header or as `Authorization: Bearer`, or a bearer token made from it
(`POST /auth/token/`). Pages of a web site may use a public key in the query, `connection_key` of a connection or
`agent_key` of a public agent, from an origin that the key allows: for sessions with its own agent, their artifacts and
their events.

Every answer carries `X-Correlation-ID`; send one of your own to find all events of a request again. Send an
`Idempotency-Key` with a write to repeat it safely after a 503 or 504.

A **WebSocket** per session, `WS /api/v1/ws/sessions/{session_id}/`, carries messages to the agent and all events of the
session. [asyncapi.json](../asyncapi.json) describes its messages, and all events of the service.
"""
TAGS: Final = {
    "Agents": "Stored agents, their versions, and the validation of configurations.",
    "Sessions": "Conversations with agents.",
    "Runtime": "Executing messages, the history, the state of turns.",
    "Events": "The company's timeline: everything that happened, in order.",
    "Artifacts": "Files of one session: uploaded into it, or made by its agent.",
    "Files": "Documents of the company, and collections of them.",
    "Knowledge bases": "Documents made searchable for agents.",
    "Catalogues": "What agents can be built from.",
    "Toolsets": "Tools of your own, and the secrets that their headers need.",
    "Webhooks": "Addresses of yours that events are sent to.",
    "Usage": "What turns consumed and cost, and budgets.",
    "Access": "API keys, tokens, connections and the caller.",
    "Operations": "Health, lag and dead letters, for operators.",
}
CORRELATION_IN: Final = "A label of yours that finds all events of this request again; one is made when you send none."
CORRELATION_OUT: Final = "The request's label."
LOCATION: Final = "Where to find what was made."
CHALLENGES: Final = "The ways to authenticate."
RETRY_AFTER: Final = "Seconds until it makes sense to try again."
EXECUTE: Final = """
Runs the agent on a message and answers with its reply. Turns of a session run one at a time, in the order in which
they were accepted; closing the connection never stops one.

* By default the call waits up to 120 s for the reply, with `Prefer: wait=N` up to N seconds (600 at most). A turn
  that takes longer continues: the answer is 202 with the `Location` of the turn.
* `Prefer: respond-async` answers 202 as soon as the turn is durably queued.
* A turn that needs an answer from outside is `waiting`: the call answers 202 at once, with its `required_actions`. It
  resumes when they are resolved; the same call with the same `Idempotency-Key` then answers with the reply.
* A turn behind a waiting one is `queued`: the call answers 202 at once, and `blocked_by` names the waiting turn and its
  `required_actions`.
* `Accept: text/event-stream` streams the turn's events: `turn.started`, `turn.output_text.delta`,
  `turn.tool_call.completed`, …; `turn.completed`, `turn.failed` or `turn.cancelled` is the last one. Its text is
  authoritative. The stream stays open while the turn is waiting. `Location` names the turn; if the connection is
  lost, resume the stream at `…/turns/{turn_id}/events/`.
""".strip()
RESOLVE: Final = """
Answers an action of `required_actions`. An `approval` takes a `decision`, and the scope `runtime:approve`: an
approved call runs with exactly the arguments that were shown. A `tool_result` takes the `output` or the `error` of the
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
The events that the company's services have recorded in the last 30 days, oldest first; those of other users' private
sessions only with a `company:…` scope. A public key sees the events of one of its own sessions, named by `session_id`.

* `position` counts the company's events and never changes. Read on with `after`, the `next` of the page before. A page
  may be short, even empty, while `has_more` is true. `order=desc` reads from the end, newest first; continue with
  `before`.
* `Accept: text/event-stream` follows the timeline: from `after` or `Last-Event-ID` on, else from now. `id:` is the
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
