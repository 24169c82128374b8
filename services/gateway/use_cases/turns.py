"""Starts, awaits, follows, answers and cancels turns."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from libs.contracts.errors import NotFound, ServiceUnavailable, TimedOut
from libs.contracts.identifiers import id_of
from libs.contracts.identity import Identity, Scope
from libs.contracts.messages import Event, Received
from libs.contracts.resources.actions import ResolveAction, ResolveActionAccepted, ResolveActionBody
from libs.contracts.resources.messages import ContentBlock
from libs.contracts.resources.sessions import SessionBeginning
from libs.contracts.resources.turns import (
    TURN_ENDS,
    BlockedBy,
    CancelTurn,
    CancelTurnAccepted,
    ExecuteTurn,
    RequiredAction,
    Turn,
    TurnActionRequired,
    TurnActionResolved,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnPage,
    TurnQueued,
    TurnRequest,
    TurnStarted,
    TurnStatus,
)
from libs.eventing import Replies, ReplyState
from libs.service_defaults import UpstreamClient
from services.gateway.domain.idempotency import IdempotentRequest, Write
from services.gateway.domain.ports import IdempotencyStore
from services.gateway.domain.turn_progress import TurnProgress, typed_events
from services.gateway.domain.turn_stream import StreamedEvent
from services.gateway.use_cases.command_dispatcher import NOT_ACCEPTED, CommandDispatcher, raise_failure
from services.gateway.use_cases.image_uploads import ImageUploads
from services.gateway.use_cases.reading.event_reader import EventReader
from services.gateway.use_cases.sessions import Sessions

_ACCEPTANCE_SECONDS: Final = 5.0
_LOOK_UP_SECONDS: Final = 2.6
"""Slightly longer than the time after which ``Replies`` asks the upstream for the outcome."""
_STATUS: Final[dict[str, TurnStatus]] = {
    TurnQueued.TYPE: "queued",
    TurnStarted.TYPE: "running",
    TurnCompleted.TYPE: "completed",
    TurnFailed.TYPE: "failed",
    TurnCancelled.TYPE: "cancelled",
}
TurnPart = TurnProgress | Turn | None
"""An event, a waiting turn, or ``None`` as a keep-alive."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The last known status of a turn that hasn't ended. ``blocked_by``: the waiting turn ahead of it, if any."""

    status: TurnStatus
    required_actions: Sequence[RequiredAction] = ()
    blocked_by: BlockedBy | None = None

    @property
    def needs_answers(self) -> bool:
        return self.status == "waiting" or self.blocked_by is not None


@dataclass(slots=True)
class SubmittedTurn:
    """A turn whose command has been sent. Call exactly one of ``finish``, ``accepted`` and ``follow``.

    ``has_failed``: whether ``finish`` raised the error of a failed or cancelled turn, and not of a refused one.
    """

    replies: Replies
    session_id: str
    reader: EventReader
    has_failed: bool = False

    @property
    def command_id(self) -> str:
        return self.replies.command_id

    async def finish(self, seconds: float) -> Received | Unfinished:
        """Waits up to ``seconds`` for the turn to complete or need an answer.

        Raises the turn's error if the turn is refused, fails or is cancelled. Raises ``TimedOut`` if the runtime
        doesn't accept the turn within 5 s.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        now = Unfinished("queued")
        received = await self._await_acceptance()
        if received is None and (now := await self._state(now)).needs_answers:
            # The event was lost, or sent to an earlier request.
            return now
        while True:
            if received is not None:
                if self.replies.ends(received):
                    self.has_failed = received.envelope.type in (TurnFailed.TYPE, TurnCancelled.TYPE)
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
        """Waits until the turn is stored. Raises the error of a refused turn, and ``TimedOut`` like ``finish``."""
        received = await self._await_acceptance()
        if received is None:
            return await self._state(Unfinished("queued"))
        status = _STATUS.get(received.envelope.type)
        if status is None:
            raise_failure(received)
        return Unfinished(status or "running", blocked_by=_blocked_by(received))

    async def follow(self) -> AsyncGenerator[StreamedEvent | None, None]:
        """Yields the turn's events, and ``None`` as a keep-alive. Raises the same errors as ``accepted``, before the
        first event.
        """
        received = await self._await_acceptance()
        if received is not None and received.envelope.type not in _STATUS and self.replies.ends(received):
            raise_failure(received)
        async with aclosing(self.reader.submitted_turn(self.replies, self.session_id, received)) as events:
            async for event in events:
                yield event

    async def _state(self, last_known: Unfinished) -> Unfinished:
        """Returns the turn's state, or the last known state if the runtime doesn't respond."""
        try:
            turn = await self.reader.turn_state(self.replies.identity, self.session_id, self.command_id)
        except (ServiceUnavailable, NotFound):
            return last_known
        return Unfinished(turn.status, turn.required_actions, turn.blocked_by)

    async def _await_acceptance(self) -> Received | None:
        """Waits until the runtime has the turn. Returns the turn's first event, if it has arrived."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _ACCEPTANCE_SECONDS
        while self.replies.state is ReplyState.WAITING:
            if (left := deadline - loop.time()) <= 0:
                raise TimedOut(NOT_ACCEPTED)
            if (received := await self.replies.next(min(left, _LOOK_UP_SECONDS))) is not None:
                return received
        # Doesn't wait for an event, because the turn may be running without one.
        return await self.replies.wait(0.0)


@dataclass(frozen=True, slots=True)
class Turns:
    """Manages turns. Methods for a turn raise ``NotFound`` if the caller can't see it."""

    commands: CommandDispatcher
    idempotency: IdempotencyStore
    upstreams: UpstreamClient
    reader: EventReader
    sessions: Sessions
    images: ImageUploads

    @asynccontextmanager
    async def submit(
        self, write: Write, session: str | SessionBeginning, content: str | list[ContentBlock], request: TurnRequest
    ) -> AsyncIterator[SubmittedTurn]:
        """Sends a message to the runtime. ``session``: the session's ID, or the initial state of a session to create.

        The turn's ID is the command's ID. The new session's ID is derived from the command's ID, so that a retry finds
        both. If there are images, the session is created first, because images are stored in a session.
        """
        if not isinstance(session, str) and write.has_images:
            session, write = await self.sessions.begin(write.part("session"), session), write.part("turn")
        session_id, begins = (session, None) if isinstance(session, str) else (None, session)
        if session_id is not None and write.images is not None:
            content = await self.images.content(write, session_id, content)

        def make(command_id: str) -> ExecuteTurn:
            # The content was validated with the body.
            return ExecuteTurn.model_construct(
                session_id=session_id or _session_of(command_id), content=content, request=request, begins=begins
            )

        async with self.commands.dispatch(write, ExecuteTurn, make) as replies:
            yield SubmittedTurn(replies, session_id or _session_of(replies.command_id), self.reader)

    async def up_to_wait(
        self,
        identity: Identity,
        events: AsyncGenerator[StreamedEvent | None, None],
        known: Collection[str] = (),
        answered: Collection[str] = (),
    ) -> AsyncGenerator[TurnPart, None]:
        """Follows a turn for protocols whose streams end when the turn needs an answer. The waiting turn comes last.

        ``known``: IDs of open actions that this reader won't answer. ``answered``: IDs of actions that this reader has
        just answered. Events before the last of these answers are omitted.
        """
        awaited = set(answered)
        async with aclosing(typed_events(events)) as progress:
            async for each in progress:
                if each is None:
                    yield None
                    continue
                if not awaited or isinstance(each.event, TURN_ENDS):
                    yield each
                elif isinstance(each.event, TurnActionResolved):
                    awaited.discard(each.event.action_id)
                if (turn := await self._waiting(identity, each.event, known)) is not None:
                    yield turn
                    return

    async def read(self, identity: Identity, turn_id: str) -> Turn:
        """Returns a turn by its ID, without the session's ID."""
        path = f"/internal/turns/{id_of(turn_id, 'turn')}"
        return await self.upstreams.read(Turn, "runtime", path, identity)

    async def page(self, identity: Identity, **criteria: str | int | None) -> TurnPage:
        """Returns a page of the caller's turns that match the criteria, most recently changed first."""
        given = {name: value for name, value in criteria.items() if value is not None}
        return await self.upstreams.read(TurnPage, "runtime", "/internal/turns", identity, given)

    async def find(self, request: IdempotentRequest) -> str | None:
        """Returns the ID of the turn that a recent request with this idempotency key started, or None."""
        return await self.idempotency.find(request)

    async def answer(
        self, write: Write, session_id: str, turn_id: str, action_id: str, answer: ResolveActionBody
    ) -> Turn:
        """Resolves an open action, and returns the turn. The caller must have checked the required scope.

        Raises ``Conflict`` if the action was answered differently or is no longer open.
        """
        command = ResolveAction(
            session_id=id_of(session_id, "session"),
            turn_id=id_of(turn_id, "turn"),
            action_id=id_of(action_id, "action"),
            decision=answer.decision,
            reason=answer.reason,
            output=answer.output,
            error=answer.error,
        )
        return ResolveActionAccepted.decode((await self.commands.run(write, command)).payload).turn

    async def cancel(self, write: Write, session_id: str, turn_id: str) -> CancelTurnAccepted:
        """Cancels a turn. Raises ``Conflict`` if the turn has already ended."""
        command = CancelTurn(session_id=id_of(session_id, "session"), turn_id=id_of(turn_id, "turn"))
        accepted = await self.commands.run(write, command)
        return CancelTurnAccepted.decode(accepted.payload)

    async def _waiting(self, identity: Identity, event: Event, known: Collection[str]) -> Turn | None:
        """Returns the turn if the event requires an action that is still open and isn't ``known``."""
        if not isinstance(event, TurnActionRequired) or event.action.action_id in known:
            return None
        try:
            turn = await self.read(identity, event.turn_id)
        except (ServiceUnavailable, NotFound):
            # It's unknown whether the turn is still waiting, so the stream continues.
            return None
        is_open = any(action.action_id == event.action.action_id for action in turn.required_actions)
        return turn if is_open else None


def scope_to_answer(answer: ResolveActionBody) -> Scope:
    """Returns the scope that a caller needs to give this answer."""
    return Scope.RUNTIME_EXECUTE if answer.decision is None else Scope.RUNTIME_APPROVE


def _blocked_by(received: Received) -> BlockedBy | None:
    return TurnQueued.decode(received.payload).blocked_by if received.envelope.type == TurnQueued.TYPE else None


def _session_of(command_id: str) -> str:
    """Returns the ID of the session that a turn creates: the turn's ID with one bit changed."""
    return str(UUID(int=UUID(command_id).int ^ 1))
