"""Follows a turn for protocols whose streams end when the turn needs an answer from outside."""

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import dataclass

from libs.contracts.api.sessions import Turn
from libs.contracts.errors import NotFound, ServiceUnavailable
from libs.contracts.events.runtime import TurnActionRequired, TurnActionResolved
from libs.contracts.identity import Identity
from libs.contracts.messages import Event
from services.gateway.domain.turn_progress import ENDS, TurnProgress, typed_events
from services.gateway.domain.turn_stream import StreamedEvent
from services.gateway.use_cases.agent_turns import ReadTurn

TurnPart = TurnProgress | Turn | None
"""An event, the turn that waits, or ``None``: a moment to keep the connection alive."""


@dataclass(frozen=True, slots=True)
class FollowUpToWait:
    read: ReadTurn

    async def __call__(
        self,
        identity: Identity,
        events: AsyncGenerator[StreamedEvent | None, None],
        known: Collection[str] = (),
        answered: Collection[str] = (),
    ) -> AsyncGenerator[TurnPart, None]:
        """Yields the events up to the terminal one, or up to the turn as it waits, which comes last.

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
