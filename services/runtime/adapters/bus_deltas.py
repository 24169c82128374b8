"""Publishes deltas to their topic. Deltas aren't stored, so they're lost if the bus is slow or unavailable."""

import asyncio
from collections import deque
from typing import Final

import structlog

from libs.contracts.identifiers import new_id
from libs.contracts.messages import Envelope, Event
from libs.contracts.timestamps import now_text
from libs.eventing import Outbox
from libs.eventing.bus import BusUnavailable, MessageRefused, Producer
from services.runtime.domain.turns import ClaimedTurn

_log = structlog.get_logger("runtime.deltas")
_LONGEST_QUEUE: Final = 10_000


class BusDeltas:
    """Implements DeltaSink with a queue. If the queue is full, the oldest delta is dropped.

    The outbox's buffered events are sent first, so that readers never receive text before the events that precede it.
    """

    def __init__(self, producer: Producer, outbox: Outbox, *, source: str) -> None:
        self._producer = producer
        self._outbox = outbox
        self._source = source
        self._waiting: deque[tuple[Event, Envelope]] = deque(maxlen=_LONGEST_QUEUE)
        self._woken = asyncio.Event()

    def send(self, turn: ClaimedTurn, event: Event, follows: int) -> None:
        self._waiting.append((event, self._envelope(turn, event, follows)))
        # Wake the outbox first, so that its task runs before the deltas' task.
        self._outbox.send_now()
        self._woken.set()

    async def run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._waiting:
                await self._send(*self._waiting.popleft())

    async def _send(self, event: Event, envelope: Envelope) -> None:
        try:
            sent = await self._producer.send(
                event.TOPIC.name, envelope.correlation_id, event.encode(), envelope.headers()
            )
        except (BusUnavailable, MessageRefused) as problem:
            _log.debug("delta.dropped", turn_id=envelope.subject, problem=str(problem))
        else:
            sent.add_done_callback(_retrieve)

    def _envelope(self, turn: ClaimedTurn, event: Event, follows: int) -> Envelope:
        return Envelope(
            id=new_id(),
            type=event.TYPE,
            source=self._source,
            subject=turn.id,
            time=now_text(),
            correlation_id=turn.message_context.correlation_id,
            causation_id=turn.id,
            company_id=turn.message_context.company_id,
            sequence=follows,
            traceparent=turn.message_context.traceparent,
        )


def _retrieve(sent: asyncio.Future[None]) -> None:
    """Ignores a delivery error. A lost delta is harmless, because the terminal event contains the whole text."""
    if not sent.cancelled():
        sent.exception()
