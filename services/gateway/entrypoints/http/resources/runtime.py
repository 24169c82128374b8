"""``/runtime/{session_id}/…``: executing messages and what came of it."""

from collections.abc import AsyncGenerator
from typing import Final

from libs.contracts.api.sessions import ExecuteBody, ExecuteReply, MessagePage, Turn, TurnAccepted
from libs.contracts.commands.runtime import CancelTurn
from libs.contracts.errors import NotFound
from libs.contracts.events.runtime import CancelTurnAccepted
from libs.contracts.identifiers import is_id
from libs.contracts.identity import Scope
from libs.contracts.messages import public_name
from services.gateway.entrypoints.http import examples
from services.gateway.entrypoints.http.event_streams import KEEP_ALIVE, render_event
from services.gateway.entrypoints.http.forwarding import Forwarding, id_in
from services.gateway.entrypoints.http.messages import Reply, Request, Stream
from services.gateway.entrypoints.http.operations import VISITORS, Answer, Body, Operation
from services.gateway.entrypoints.http.preferences import Preference, preference_of, wants_events
from services.gateway.entrypoints.http.schemas import TurnCancelledReply
from services.gateway.use_cases.commands.command_dispatcher import CommandDispatcher
from services.gateway.use_cases.commands.submitted_turn import Unfinished
from services.gateway.use_cases.submit_turn import SubmitTurn

_TAG: Final = "Runtime"
_EXECUTE: Final = """
Runs the agent on a message and answers with its reply. One turn runs at a time per session, in the order in which
they were taken in; a closed connection never stops one.

* By default the call waits up to 120 s for the reply, with `Prefer: wait=N` up to N seconds (600 at most). A turn
  that takes longer goes on: the answer is 202 with the `Location` of the turn.
* `Prefer: respond-async` answers 202 as soon as the turn is durably taken in.
* `Accept: text/event-stream` streams the turn's events: `turn.started`, `turn.output_text.delta`,
  `turn.tool_call.completed`, …; `turn.completed`, `turn.failed` or `turn.cancelled` is the last one. Its text is
  authoritative.
"""


class Runtime:
    def __init__(self, submit_turn: SubmitTurn, commands: CommandDispatcher, forward: Forwarding) -> None:
        self._submit_turn = submit_turn
        self._commands = commands
        self._forward = forward

    async def execute(self, request: Request) -> Reply | Stream:
        body: ExecuteBody = request.body
        if wants_events(request.headers.get(b"accept")):
            return Stream(self._events(request, body))
        preference = preference_of(request.headers.get(b"prefer"))
        session_id = id_in(request, "session_id", "session")
        async with self._submit_turn(request.write(), session_id, body, stream=False) as turn:
            end = await turn.finish(preference.wait) if preference.wait > 0 else await turn.accepted()
            if isinstance(end, Unfinished):
                return _accepted(request, session_id, turn.command_id, end, preference)
            return Reply(200, end.payload)

    async def _events(self, request: Request, body: ExecuteBody) -> AsyncGenerator[bytes, None]:
        session_id = id_in(request, "session_id", "session")
        async with self._submit_turn(request.write(), session_id, body, stream=True) as turn:
            async for received in turn.follow():
                if received is None:
                    yield KEEP_ALIVE
                else:
                    yield render_event(public_name(received.envelope.type), received.payload)

    async def cancel(self, request: Request) -> Reply:
        session_id, turn_id = request.parameters["session_id"], request.parameters["turn_id"]
        if not (is_id(session_id) and is_id(turn_id)):
            raise NotFound("There is no turn with this id.")
        command = CancelTurn(session_id=session_id, turn_id=turn_id)
        received = await self._commands.run(request.write(), command, subject=turn_id)
        accepted = CancelTurnAccepted.decode(received.payload)
        reply = TurnCancelledReply(turn_id=turn_id, session_id=session_id, status=accepted.status)
        return Reply(200, reply.model_dump_json().encode())

    async def messages(self, request: Request) -> Reply:
        session_id = id_in(request, "session_id", "session")
        return await self._forward.page(request, "runtime", f"/internal/sessions/{session_id}/messages")

    async def turn(self, request: Request) -> Reply:
        session_id = id_in(request, "session_id", "session")
        turn_id = id_in(request, "turn_id", "turn")
        return await self._forward.get(request, "runtime", f"/internal/sessions/{session_id}/turns/{turn_id}")

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="POST",
                path="/runtime/{session_id}/execute/",
                name="execute",
                summary="Execute a message",
                description=_EXECUTE.strip(),
                tag=_TAG,
                handler=self.execute,
                scope=Scope.RUNTIME_EXECUTE,
                credentials=VISITORS,
                writes=True,
                prefers=True,
                body=Body(model=ExecuteBody, examples=examples.MESSAGES),
                answers={
                    200: Answer(description="The reply, or the turn's events.", model=ExecuteReply, streams=True),
                    202: Answer(description="The turn goes on.", model=TurnAccepted, headers=("Location",)),
                },
                errors=(404, 409, 502),
            ),
            Operation(
                method="GET",
                path="/runtime/{session_id}/messages/",
                name="list_messages",
                summary="List the messages of a session",
                tag=_TAG,
                handler=self.messages,
                scope=Scope.SESSIONS_READ,
                credentials=VISITORS,
                paged=True,
                answers={200: Answer(description="Messages, oldest first.", model=MessagePage)},
                errors=(404, 422),
            ),
            Operation(
                method="GET",
                path="/runtime/{session_id}/turns/{turn_id}/",
                name="get_turn",
                summary="Get the state of a turn",
                description="With the reply once it is completed, and the error once it has failed.",
                tag=_TAG,
                handler=self.turn,
                scope=Scope.SESSIONS_READ,
                credentials=VISITORS,
                answers={200: Answer(description="The turn.", model=Turn)},
                errors=(404,),
            ),
            Operation(
                method="POST",
                path="/runtime/{session_id}/turns/{turn_id}/cancel/",
                name="cancel_turn",
                summary="Cancel a turn that waits or runs",
                tag=_TAG,
                handler=self.cancel,
                scope=Scope.RUNTIME_EXECUTE,
                credentials=VISITORS,
                writes=True,
                answers={200: Answer(description="The turn is cancelled.", model=TurnCancelledReply)},
                errors=(404, 409),
            ),
        )


def _accepted(request: Request, session_id: str, turn_id: str, end: Unfinished, preference: Preference) -> Reply:
    accepted = TurnAccepted(
        turn_id=turn_id, session_id=session_id, status=end.status, correlation_id=request.recorded_correlation_id
    )
    headers = [(b"location", f"/api/v1/runtime/{session_id}/turns/{turn_id}/".encode())]
    if preference.applied:
        headers.append((b"preference-applied", preference.applied.encode()))
    return Reply(202, accepted.model_dump_json().encode(), headers)
