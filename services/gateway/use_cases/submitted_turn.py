"""A submitted turn, awaited: to its end, until it is accepted, or event by event."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Final

from libs.contracts.api.sessions import BlockedBy, RequiredAction, TurnStatus
from libs.contracts.errors import NotFound, ServiceUnavailable, TimedOut
from libs.contracts.events.runtime import (
    TurnActionRequired,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnQueued,
    TurnStarted,
)
from libs.contracts.messages import Received
from libs.eventing import Replies, ReplyState
from services.gateway.domain.turn_stream import StreamedEvent, TurnStream
from services.gateway.use_cases.command_dispatcher import NOT_ACCEPTED, raise_failure
from services.gateway.use_cases.turn_follower import TurnFollower
from services.gateway.use_cases.turn_history import FollowedTurn, TurnHistory

_ACCEPTANCE_SECONDS: Final = 5.0
_LOOK_UP_SECONDS: Final = 2.6
"""A little longer than the silence after which the upstream's look-up is asked."""
_STATUS: Final[dict[str, TurnStatus]] = {
    TurnQueued.TYPE: "queued",
    TurnStarted.TYPE: "running",
    TurnCompleted.TYPE: "completed",
    TurnFailed.TYPE: "failed",
    TurnCancelled.TYPE: "cancelled",
}


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The last known status of a turn that has not ended.

    With the answers that it needs while it is waiting, or those of the waiting turn that it is queued behind.
    """

    status: TurnStatus
    required_actions: Sequence[RequiredAction] = ()
    blocked_by: BlockedBy | None = None

    @property
    def needs_answers(self) -> bool:
        return self.status == "waiting" or self.blocked_by is not None


@dataclass(frozen=True, slots=True)
class SubmittedTurn:
    """A turn in the hands of the runtime; exactly one of ``finish``, ``accepted`` and ``follow`` is called."""

    replies: Replies
    session_id: str
    history: TurnHistory

    @property
    def command_id(self) -> str:
        return self.replies.command_id

    async def finish(self, seconds: float) -> Received | Unfinished:
        """Waits up to ``seconds`` for the completed turn, not longer than until answers from outside are needed.

        Raises the error of a refused, failed or cancelled turn, and ``TimedOut`` when the runtime has not accepted it
        within 5 s.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        now = Unfinished("queued")
        received = await self._await_acceptance()
        if received is None and (now := await self._state(now)).needs_answers:
            # The event that says so went to an earlier request, or was lost.
            return now
        while True:
            if received is not None:
                if self.replies.ends(received):
                    raise_failure(received)
                    return received
                if received.envelope.type == TurnActionRequired.TYPE:
                    action = TurnActionRequired.decode(received.payload).action
                    if (now := await self._state(Unfinished("waiting", (action,)))).needs_answers:
                        return now
                now = Unfinished(_STATUS.get(received.envelope.type, now.status), blocked_by=_blocked_by(received))
                if now.blocked_by is not None and (now := await self._state(now)).needs_answers:
                    return now
            left = deadline - loop.time()
            if left <= 0 or (received := await self.replies.next(left)) is None:
                return await self._state(now)

    async def accepted(self) -> Unfinished:
        """Waits until the turn is stored. Raises its refusal, or ``TimedOut`` as ``finish`` does."""
        received = await self._await_acceptance()
        if received is None:
            return await self._state(Unfinished("queued"))
        status = _STATUS.get(received.envelope.type)
        if status is None:
            raise_failure(received)
        return Unfinished(status or "running", blocked_by=_blocked_by(received))

    async def follow(self) -> AsyncGenerator[StreamedEvent | None, None]:
        """Yields the turn's events up to the terminal one, and ``None`` after every 15 s without one.

        Before the first event it raises as ``accepted`` does.
        """
        received = await self._await_acceptance()
        if received is not None and received.envelope.type not in _STATUS and self.replies.ends(received):
            raise_failure(received)
        turn, stream = FollowedTurn(self.session_id, self.command_id, self.replies.identity), TurnStream()
        if self.replies.is_repeat:
            # The first events of a repeat went to an earlier request, which may have asked for no text.
            for each in await self.history.complete(turn, stream, await self.history.watch(turn, stream)):
                yield each
        if not stream.has_ended:
            async for event in TurnFollower(turn, stream, self.replies, self.history).follow(received):
                yield event

    async def _state(self, last_known: Unfinished) -> Unfinished:
        """The turn as the runtime has it, or as it was last known when the runtime cannot tell."""
        try:
            turn = await self.history.state(FollowedTurn(self.session_id, self.command_id, self.replies.identity))
        except (ServiceUnavailable, NotFound):
            return last_known
        return Unfinished(turn.status, turn.required_actions, turn.blocked_by)

    async def _await_acceptance(self) -> Received | None:
        """Returns the first event, or ``None`` when the runtime is known to have the turn."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _ACCEPTANCE_SECONDS
        while self.replies.state is ReplyState.WAITING:
            if (left := deadline - loop.time()) <= 0:
                raise TimedOut(NOT_ACCEPTED)
            if (received := await self.replies.next(min(left, _LOOK_UP_SECONDS))) is not None:
                return received
        # What has arrived is there at once; silence means that the turn is under way.
        return await self.replies.wait(0.0)


def _blocked_by(received: Received) -> BlockedBy | None:
    return TurnQueued.decode(received.payload).blocked_by if received.envelope.type == TurnQueued.TYPE else None
