"""The stream of a turn as typed events, for protocols that tell of turns in words of their own."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, NamedTuple

from libs.contracts.messages import Event
from libs.contracts.resources import turns
from services.gateway.domain.turn_stream import Cursor, StreamedEvent

_TYPES: Final[dict[str, type[Event]]] = {
    event.TYPE: event
    for event in (
        turns.OutputTextDelta,
        turns.OutputTextDone,
        turns.TurnQueued,
        turns.TurnStarted,
        turns.TurnRestarted,
        turns.ToolCallStarted,
        turns.ToolCallCompleted,
        turns.ToolCallFailed,
        turns.TurnActionRequired,
        turns.TurnActionResolved,
        turns.OutputInvalid,
        turns.CitationAdded,
        turns.TurnCompleted,
        turns.TurnFailed,
        turns.TurnCancelled,
    )
}


class TurnProgress(NamedTuple):
    """An event of a turn. ``at``: the place right after it, the same on every replica and after a restart.

    After ``TurnRestarted`` the texts of steps behind ``resumed_from_step`` do not count, after ``OutputInvalid`` that
    of its step does not: the model is asked again. The other texts of a turn that completes, in order, are what the
    model said; those before a tool call are not part of the reply.
    """

    at: Cursor
    event: Event


def typed(streamed: StreamedEvent) -> TurnProgress | None:
    """None for an event that this release does not know."""
    model = _TYPES.get(streamed.type)
    return None if model is None else TurnProgress(streamed.id, model.decode(streamed.payload))


async def typed_events(
    events: AsyncGenerator[StreamedEvent | None, None],
) -> AsyncGenerator[TurnProgress | None, None]:
    """The typed events of an ``EventReader``'s turn; ``None`` stays, a moment to keep alive."""
    async with aclosing(events):
        async for streamed in events:
            progress = None if streamed is None else typed(streamed)
            if streamed is None or progress is not None:
                yield progress
