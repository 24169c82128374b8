"""A turn as its caller follows it: to its end, to its being taken up, or event by event."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from libs.contracts.api.sessions import ExecuteBody, TurnStatus
from libs.contracts.commands.runtime import ExecuteTurn
from libs.contracts.errors import NotFound, TimedOut
from libs.contracts.events.runtime import TurnCancelled, TurnCompleted, TurnFailed, TurnQueued, TurnStarted
from libs.contracts.identifiers import is_id
from libs.contracts.messages import Command
from libs.eventing import Received
from services.gateway.domain.turn_stream import TurnStream
from services.gateway.use_cases.command_dispatcher import (
    NOT_TAKEN_UP,
    CommandDispatcher,
    PendingCommand,
    Write,
    raise_failure,
)

_TAKEN_UP_SECONDS: Final = 5.0
_STEP_SECONDS: Final = 2.6
"""A little longer than the silence after which the upstream's look-up is asked."""
KEEP_ALIVE_SECONDS: Final = 15.0
_STATUS: Final[dict[str, TurnStatus]] = {
    TurnQueued.TYPE: "queued",
    TurnStarted.TYPE: "running",
    TurnCompleted.TYPE: "completed",
    TurnFailed.TYPE: "failed",
    TurnCancelled.TYPE: "cancelled",
}


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The turn goes on by itself; this is how far it is known to be."""

    status: TurnStatus


class SubmitTurn:
    def __init__(self, commands: CommandDispatcher) -> None:
        self._commands = commands

    def dispatch(
        self, write: Write, session_id: str, body: ExecuteBody, *, stream: bool
    ) -> AbstractAsyncContextManager[PendingCommand]:
        """Send the turn to the runtime. The turn's id is the command's. Raises ``NotFound`` for a malformed id."""
        if not is_id(session_id):
            raise NotFound("There is no session with this id.")

        async def make(_: str) -> Command:
            # The content was validated as part of the body a moment ago.
            return ExecuteTurn.model_construct(session_id=session_id, content=body.content, stream=stream)

        return self._commands.dispatch(write, ExecuteTurn, make, subject=session_id)

    async def finish(self, pending: PendingCommand, seconds: float) -> Received | Unfinished:
        """The completed turn, or how far it is after ``seconds``; raises what a failed turn tells of.

        Raises ``TimedOut`` when nobody took it up within 5 s.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        status: TurnStatus = "queued"
        received = await self._await_acceptance(pending)
        while True:
            if received is not None:
                if pending.replies.ends(received):
                    raise_failure(received)
                    return received
                status = _STATUS.get(received.envelope.type, status)
            left = deadline - loop.time()
            if left <= 0:
                return Unfinished(status)
            received = await pending.replies.next(left)
            if received is None:
                return Unfinished(status)

    async def take_up(self, pending: PendingCommand) -> Unfinished:
        """Wait until the turn is durably taken in. Raises its refusal, or ``TimedOut`` as ``finish`` does."""
        received = await self._await_acceptance(pending)
        if received is None:
            return Unfinished("queued")
        status = _STATUS.get(received.envelope.type)
        if status is None:
            raise_failure(received)
        return Unfinished(status or "running")

    async def follow(self, pending: PendingCommand) -> AsyncIterator[Received | None]:
        """The turn's events as they come, ending with the terminal one; ``None`` after each stretch of silence.

        Before the first one, raises as ``take_up`` does.
        """
        received = await self._await_acceptance(pending)
        if received is not None and received.envelope.type not in _STATUS and pending.replies.ends(received):
            raise_failure(received)
        # Of a repeat the first events were told to somebody else; text must not wait for them.
        stream = TurnStream(from_beginning=not pending.known)
        while True:
            if received is None:
                yield None
            else:
                for shown in stream.take(received):
                    yield shown
                if pending.replies.ends(received):
                    return
            received = await pending.replies.next(KEEP_ALIVE_SECONDS)

    async def _await_acceptance(self, pending: PendingCommand) -> Received | None:
        """The first event, or none when the turn is known to be taken up without one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TAKEN_UP_SECONDS
        if pending.known:
            # What its upstream told of a repeat has arrived already; silence means that it is under way.
            return await pending.replies.next(0.01)
        while (left := deadline - loop.time()) > 0:
            received = await pending.replies.next(min(left, _STEP_SECONDS))
            if received is not None:
                return received
            if pending.replies.state == "taken":
                return None
        raise TimedOut(NOT_TAKEN_UP)
