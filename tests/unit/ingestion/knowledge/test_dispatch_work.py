"""Sending due work to the workers through outages."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from services.ingestion.domain.runs import Due, ItemKey
from services.ingestion.use_cases.dispatch_work import DispatchWork

WORK = [Due(ItemKey("index", f"file-{number}"), "company", "correlation") for number in range(3)]


@dataclass
class MemoryQueue:
    waiting: list[Due] = field(default_factory=lambda: list(WORK))
    is_down: bool = False

    async def take_due(self, limit: int) -> list[Due]:
        if self.is_down:
            raise ConnectionError
        taken, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return taken

    async def requeue(self, work: Sequence[Due]) -> None:
        if self.is_down:
            raise ConnectionError
        self.waiting += work


@dataclass
class Bus:
    queue: MemoryQueue
    is_down: bool = True
    sent: list[Due] = field(default_factory=list)

    async def send(self, work: Sequence[Due]) -> list[Due]:
        """Stops the bus and the database at the same time."""
        if self.is_down:
            self.queue.is_down = True
            return list(work)
        self.sent += work
        return []


async def test_work_that_could_not_be_sent_is_queued_again_after_an_outage_of_the_database() -> None:
    queue = MemoryQueue()
    bus = Bus(queue)
    dispatch = DispatchWork(queue, bus)  # type: ignore[arg-type]

    for _ in range(2):
        with pytest.raises(ConnectionError):
            await dispatch()
    bus.is_down = queue.is_down = False
    await dispatch()

    assert (bus.sent, queue.waiting) == (WORK, [])
