"""Turns: begun, awaited, answered and cancelled, whatever protocol they come by."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from libs.contracts.errors import NotFound, ServiceUnavailable, TimedOut
from libs.contracts.identifiers import id_of
from libs.contracts.identity import Identity, Scope
from libs.contracts.messages import Event, Received
from libs.contracts.resources.actions import ResolveAction, ResolveActionAccepted, ResolveActionBody
from libs.contracts.resources.sessions import SessionBeginning
from libs.contracts.resources.turns import (
    TURN_ENDS,
    BlockedBy,
    CancelTurn,
    CancelTurnAccepted,
    ClientCalls,
    ExecuteBody,
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
    TurnStarted,
    TurnStatus,
)
from libs.eventing import Replies, ReplyState
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import checked
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
"""A little longer than the silence after which the upstream's look-up is asked."""
_STATUS: Final[dict[str, TurnStatus]] = {
    TurnQueued.TYPE: "queued",
    TurnStarted.TYPE: "running",
    TurnCompleted.TYPE: "completed",
    TurnFailed.TYPE: "failed",
    TurnCancelled.TYPE: "cancelled",
}
TurnPart = TurnProgress | Turn | None
"""An event, the turn that waits, or ``None``: a moment to keep the connection alive."""


class TurnQuery(NamedTuple):
    """A choice among the turns with an agent, all of them by default. ``changed_after``: a timestamp.

    ``after``: the cursor that the page before has given.
    """

    agent_id: str
    session_id: str | None = None
    status: TurnStatus | None = None
    changed_after: str | None = None
    after: str | None = None
    limit: int = 50


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
    reader: EventReader

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
        async with aclosing(self.reader.submitted_turn(self.replies, self.session_id, received)) as events:
            async for event in events:
                yield event

    async def _state(self, last_known: Unfinished) -> Unfinished:
        """The turn as the runtime has it, or as it was last known when the runtime cannot tell."""
        try:
            turn = await self.reader.turn_state(self.replies.identity, self.session_id, self.command_id)
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


@dataclass(frozen=True, slots=True)
class Turns:
    """Every method that names a turn raises ``NotFound`` for one that doesn't exist, or not for the caller."""

    commands: CommandDispatcher
    idempotency: IdempotencyStore
    upstreams: UpstreamClient
    reader: EventReader
    sessions: Sessions
    images: ImageUploads

    @asynccontextmanager
    async def submit(
        self,
        write: Write,
        session_id: str,
        body: ExecuteBody,
        *,
        stream: bool,
        position: int | None = None,
        client_calls: ClientCalls | None = None,
        whole_history: bool = False,
    ) -> AsyncIterator[SubmittedTurn]:
        """Sends a message to the runtime. The turn's id is the command's.

        ``position``: refused with a conflict unless the turn gets this position in its session. ``client_calls``,
        ``whole_history``: as in ``ExecuteTurn``.
        """
        content = body.content
        if write.images is not None:
            content = await self.images.content(write, session_id, content)
        # The content was validated as part of the body a moment ago.
        command = ExecuteTurn.model_construct(
            session_id=session_id,
            content=content,
            stream=stream,
            options=body.options,
            position=position,
            client_calls=client_calls,
            whole_history=whole_history,
        )
        async with self.commands.dispatch(write, ExecuteTurn, lambda _: command) as replies:
            yield SubmittedTurn(replies, session_id, self.reader)

    @asynccontextmanager
    async def begin(
        self,
        write: Write,
        begins: SessionBeginning,
        body: ExecuteBody,
        client_calls: ClientCalls | None = None,
        *,
        stream: bool,
        whole_history: bool = False,
    ) -> AsyncIterator[SubmittedTurn]:
        """Begins a session with its first turn, by one command.

        The session's id follows from the command's, so that a repeat finds both. With images the session comes first,
        since they belong to it.
        """
        if write.has_images:
            session_id = await self.sessions.begin(write.part("session"), begins)
            turn = write.part("turn")
            async with self.submit(
                turn, session_id, body, stream=stream, client_calls=client_calls, whole_history=whole_history
            ) as submitted:
                yield submitted
            return

        def make(command_id: str) -> ExecuteTurn:
            return ExecuteTurn.model_construct(
                session_id=_session_of(command_id),
                content=body.content,
                stream=stream,
                options=body.options,
                begins=begins,
                client_calls=client_calls,
                whole_history=whole_history,
            )

        async with self.commands.dispatch(write, ExecuteTurn, make) as replies:
            yield SubmittedTurn(replies, _session_of(replies.command_id), self.reader)

    async def up_to_wait(
        self,
        identity: Identity,
        events: AsyncGenerator[StreamedEvent | None, None],
        known: Collection[str] = (),
        answered: Collection[str] = (),
    ) -> AsyncGenerator[TurnPart, None]:
        """Follows a turn for protocols whose streams end when the turn needs an answer from outside.

        Yields the events up to the terminal one, or up to the turn as it waits, which comes last.

        Waits that are over are passed by. ``known``: ids of open actions that the reader waits for others to answer.
        ``answered``: those whose answers the reader begins with; what happened before the last of them is left out, but
        for the turn as it waits for another one.
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
        """A turn by its id alone, for protocols whose ids of turns do not name the session."""
        path = f"/internal/turns/{id_of(turn_id, 'turn')}"
        return Turn.model_validate_json(checked(await self.upstreams.request("GET", "runtime", path, identity)))

    async def page(self, identity: Identity, wanted: TurnQuery) -> TurnPage:
        """The caller's turns with an agent, those that changed last first."""
        given = {name: value for name, value in wanted._asdict().items() if value is not None}
        reply = await self.upstreams.request("GET", "runtime", "/internal/turns", identity, params=given)
        return TurnPage.model_validate_json(checked(reply))

    async def find(self, request: IdempotentRequest) -> str | None:
        """The id of the turn of a request of the last days that is known by its idempotency key alone."""
        return await self.idempotency.find(request)

    async def answer(
        self, write: Write, session_id: str, turn_id: str, action_id: str, answer: ResolveActionBody
    ) -> Turn:
        """Answers an open action of a waiting turn. Entrypoints check the scope that the answer takes.

        Returns the turn after it. Raises ``Conflict`` for an action that was answered otherwise, or is over.
        """
        accepted = await self.resolve(write, session_id, turn_id, action_id, answer)
        return ResolveActionAccepted.decode(accepted.payload).turn

    async def resolve(
        self, write: Write, session_id: str, turn_id: str, action_id: str, answer: ResolveActionBody
    ) -> Received:
        """As ``answer``. Returns the event that says so."""
        command = ResolveAction(
            session_id=id_of(session_id, "session"),
            turn_id=id_of(turn_id, "turn"),
            action_id=id_of(action_id, "action"),
            decision=answer.decision,
            reason=answer.reason,
            output=answer.output,
            error=answer.error,
        )
        return await self.commands.run(write, command)

    async def cancel(self, write: Write, session_id: str, turn_id: str) -> CancelTurnAccepted:
        """Raises ``Conflict`` for a turn that has ended."""
        command = CancelTurn(session_id=id_of(session_id, "session"), turn_id=id_of(turn_id, "turn"))
        accepted = await self.commands.run(write, command)
        return CancelTurnAccepted.decode(accepted.payload)

    async def _waiting(self, identity: Identity, event: Event, known: Collection[str]) -> Turn | None:
        """The turn, if the event says that it waits for anything but what is known, and it still does."""
        if not isinstance(event, TurnActionRequired) or event.action.action_id in known:
            return None
        try:
            turn = await self.read(identity, event.turn_id)
        except (ServiceUnavailable, NotFound):
            # Whether it still waits cannot be said: the stream goes on, and its reader can ask.
            return None
        is_open = any(action.action_id == event.action.action_id for action in turn.required_actions)
        return turn if is_open else None


def scope_to_answer(answer: ResolveActionBody) -> Scope:
    """The scope that an answer to an action takes."""
    return Scope.RUNTIME_EXECUTE if answer.decision is None else Scope.RUNTIME_APPROVE


def _blocked_by(received: Received) -> BlockedBy | None:
    return TurnQueued.decode(received.payload).blocked_by if received.envelope.type == TurnQueued.TYPE else None


def _session_of(command_id: str) -> str:
    """The id of the session that a turn begins: as new as the turn's, and never the same."""
    return str(UUID(int=UUID(command_id).int ^ 1))
