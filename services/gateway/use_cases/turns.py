"""Turns: begun, followed, answered and cancelled, whatever protocol they come by."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from libs.contracts.api.sessions import ExecuteBody, ResolveActionBody, Turn, TurnPage, TurnStatus
from libs.contracts.commands.runtime import CancelTurn, ClientCalls, ExecuteTurn, ResolveAction, SessionBeginning
from libs.contracts.errors import InvalidRequest, NotFound, ServiceUnavailable
from libs.contracts.events.runtime import (
    CancelTurnAccepted,
    ResolveActionAccepted,
    TurnActionRequired,
    TurnActionResolved,
)
from libs.contracts.identity import Identity, Scope
from libs.contracts.messages import Event
from libs.eventing import CommandSender, Received
from libs.service_defaults.internal_calls import checked
from services.gateway.domain.idempotency import IdempotentRequest, Write
from services.gateway.domain.identifiers import id_of
from services.gateway.domain.ports import IdempotencyStore, Upstreams
from services.gateway.domain.turn_progress import ENDS, TurnProgress, typed, typed_events
from services.gateway.domain.turn_stream import Cursor, StreamedEvent, TurnStream
from services.gateway.use_cases.command_dispatcher import CommandDispatcher
from services.gateway.use_cases.submitted_turn import SubmittedTurn
from services.gateway.use_cases.turn_follower import TurnFollower
from services.gateway.use_cases.turn_history import FollowedTurn, TurnHistory

ENDED: Final = frozenset[TurnStatus]({"completed", "failed", "cancelled"})
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
class Turns:
    """Every method that names a turn raises ``NotFound`` for one that doesn't exist, or not for the caller."""

    bus: CommandSender
    commands: CommandDispatcher
    idempotency: IdempotencyStore
    upstreams: Upstreams
    history: TurnHistory

    @asynccontextmanager
    async def submit(
        self,
        write: Write,
        session_id: str,
        body: ExecuteBody,
        *,
        stream: bool,
        position: int | None = None,
        whole_history: bool = False,
    ) -> AsyncIterator[SubmittedTurn]:
        """Sends a message to the runtime. The turn's id is the command's.

        ``position``: refused with a conflict unless the turn gets this position in its session. ``whole_history``:
        as in ``ExecuteTurn``.
        """
        # The content was validated as part of the body a moment ago.
        command = ExecuteTurn.model_construct(
            session_id=session_id,
            content=body.content,
            stream=stream,
            options=body.options,
            position=position,
            whole_history=whole_history,
        )
        async with self.commands.dispatch(write, ExecuteTurn, lambda _: command, subject=session_id) as replies:
            yield SubmittedTurn(replies, session_id, self.history)

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

        The session's id follows from the command's, so that a repeat finds both.
        """

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
            yield SubmittedTurn(replies, _session_of(replies.command_id), self.history)

    async def follow(
        self, identity: Identity, session_id: str, turn_id: str, after: Cursor
    ) -> AsyncGenerator[StreamedEvent | None, None]:
        """Streams a turn from a cursor on: past events first, then live ones.

        Yields ``None`` at first when there is nothing to send yet, then as ``TurnFollower`` does, and nothing at all
        when the cursor is at the turn's end. Raises ``InvalidRequest`` for a cursor of another turn.
        """
        turn = FollowedTurn(id_of(session_id, "session"), id_of(turn_id, "turn"), identity)
        stream = TurnStream(after)
        # Before the turn is watched: an event is either recorded by then, or arrives.
        async with self.bus.replies(turn_id, ExecuteTurn, identity) as replies:
            watched = await self.history.watch(turn, stream)
            if after.sequence > watched.sequence:
                raise InvalidRequest("The Last-Event-ID is not the id of an event of this turn.")
            shown = await self.history.complete(turn, stream, watched)
            if not shown:
                if watched.status in ENDED:
                    return
                yield None
            for each in shown:
                yield each
            if not stream.has_ended:
                async for event in TurnFollower(turn, stream, replies, self.history).follow(None):
                    yield event

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
                if not awaited or isinstance(each.event, ENDS):
                    yield each
                elif isinstance(each.event, TurnActionResolved):
                    awaited.discard(each.event.action_id)
                if (turn := await self._waiting(identity, each.event, known)) is not None:
                    yield turn
                    return

    async def replay(self, identity: Identity, session_id: str, turn_id: str) -> list[TurnProgress]:
        """The events of a turn up to now, with the texts of its finished steps; it does not wait for more.

        Without the end of a turn of which events are not kept any more.
        """
        turn, stream = FollowedTurn(session_id, turn_id, identity), TurnStream()
        events = await self.history.complete(turn, stream, await self.history.watch(turn, stream))
        return [progress for event in events if (progress := typed(event)) is not None]

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
        return await self.commands.run(write, command, subject=turn_id)

    async def cancel(self, write: Write, session_id: str, turn_id: str) -> CancelTurnAccepted:
        """Raises ``Conflict`` for a turn that has ended."""
        command = CancelTurn(session_id=id_of(session_id, "session"), turn_id=id_of(turn_id, "turn"))
        accepted = await self.commands.run(write, command, subject=turn_id)
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


def _session_of(command_id: str) -> str:
    """The id of the session that a turn begins: as new as the turn's, and never the same."""
    return str(UUID(int=UUID(command_id).int ^ 1))
