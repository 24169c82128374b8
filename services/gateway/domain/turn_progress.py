"""Parses a turn's stream into typed events, for protocols with their own event formats."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, NamedTuple

from libs.contracts.messages import Event, public_name
from libs.contracts.registry import published_messages
from services.gateway.domain.turn_stream import Cursor, StreamedEvent

TURN_EVENTS: Final = {
    name: model
    for name, (model, _) in published_messages().items()
    if public_name(name).startswith("turn.") and issubclass(model, Event)
}
"""The models of turns' events, by event type on Kafka."""


class TurnProgress(NamedTuple):
    """An event of a turn. ``at``: the position after the event, which is the same on every replica.

    ``TurnRestarted`` discards the texts of all steps after ``resumed_from_step``. ``OutputInvalid`` discards the text
    of its own step.
    """

    at: Cursor
    event: Event


def typed(streamed: StreamedEvent) -> TurnProgress | None:
    """Parses an event. Returns None for an unknown event type, such as one from a newer release."""
    model = TURN_EVENTS.get(streamed.type)
    return None if model is None else TurnProgress(streamed.id, model.decode(streamed.payload))


async def typed_events(
    events: AsyncGenerator[StreamedEvent | None, None],
) -> AsyncGenerator[TurnProgress | None, None]:
    """Parses the events of a turn. Passes on ``None``, which signals a keep-alive."""
    async with aclosing(events):
        async for streamed in events:
            progress = None if streamed is None else typed(streamed)
            if streamed is None or progress is not None:
                yield progress
