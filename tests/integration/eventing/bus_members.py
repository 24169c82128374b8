"""Members of a consumer group, for tests of what brokers promise."""

import asyncio
from collections.abc import Sequence

from libs.eventing.bus import Bus, Partition, Record
from tests.support.waiting import until


class Member:
    """Reads in a group and keeps the records; ``done`` commits their offsets.

    ``records`` and ``polls`` raise what ended the reading, so that no test waits for a dead member.
    """

    def __init__(self, bus: Bus, group: str, topics: Sequence[str], *, limit: int = 500, linger: bool = False) -> None:
        self._records: list[Record] = []
        self.held: frozenset[Partition] = frozenset()
        self.assignments: list[frozenset[Partition]] = []
        self.revocations: list[frozenset[Partition]] = []
        self.largest_poll = 0
        self._polls = 0
        self.paused = False
        self._limit = limit
        self._consumer = bus.consumer(group, topics, self, linger=linger)
        self._running: asyncio.Task[None] | None = None

    async def assigned(self, partitions: frozenset[Partition]) -> None:
        self.assignments.append(partitions)
        self.held = partitions

    async def revoked(self, partitions: frozenset[Partition]) -> None:
        self.revocations.append(partitions)
        self.held = frozenset()

    @property
    def records(self) -> list[Record]:
        self._raise_if_ended()
        return self._records

    @property
    def polls(self) -> int:
        self._raise_if_ended()
        return self._polls

    @property
    def values(self) -> list[bytes]:
        return [record.value for record in self.records]

    async def start(self) -> "Member":
        await self._consumer.start()
        self._running = asyncio.create_task(self._poll())
        await until(self._joined)
        return self

    async def positions(self) -> dict[Partition, tuple[int, int]]:
        return await self._consumer.positions()

    async def done(self) -> None:
        await self._consumer.commit(
            {Partition(record.topic, record.partition): record.offset + 1 for record in self.records}
        )

    async def stop(self) -> None:
        if self._running is None:
            return
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        self._running = None
        await self.close()

    async def close(self) -> None:
        await self._consumer.stop()

    async def _poll(self) -> None:
        while True:
            records = await self._consumer.poll(0.2, self._limit, frozenset() if self.paused else None)
            self._polls += 1
            self.largest_poll = max(self.largest_poll, len(records))
            self._records += records

    def _joined(self) -> bool:
        self._raise_if_ended()
        return self.assignments != []

    def _raise_if_ended(self) -> None:
        if self._running is not None and self._running.done():
            self._running.result()
