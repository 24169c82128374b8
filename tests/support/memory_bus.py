"""The broker port in memory, for unit tests: the same guarantees as Kafka's, in one process."""

import asyncio
import time
import zlib
from asyncio import Future
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from libs.contracts.topics import MAX_MESSAGE_BYTES
from libs.eventing.bus import Assignment, BusUnavailable, Headers, MessageRefused, Partition, Record


class MemoryBus:
    """A broker with ``partitions`` per topic. ``down`` makes every call fail as an outage does."""

    def __init__(self, *, partitions: int = 3) -> None:
        self.partitions = partitions
        self.down = False
        self.clock: Callable[[], float] = time.time
        self.log: defaultdict[Partition, list[Record]] = defaultdict(list)
        self.committed: dict[tuple[str, Partition], int] = {}
        self._groups: defaultdict[str, list[MemoryConsumer]] = defaultdict(list)
        self._arrived = asyncio.Condition()

    def producer(self) -> "MemoryProducer":
        return MemoryProducer(self)

    def consumer(
        self,
        group: str,
        topics: Sequence[str],
        assignment: Assignment,
        *,
        linger: bool = False,
    ) -> "MemoryConsumer":
        return MemoryConsumer(self, group, topics, assignment)

    def tail(
        self, topics: Sequence[str], *, from_start: bool = False, offsets: Mapping[Partition, int] | None = None
    ) -> "MemoryTail":
        return MemoryTail(self, topics, from_start=from_start, offsets=offsets)

    def check(self) -> None:
        if self.down:
            raise BusUnavailable("the memory bus is down")

    def partitions_of(self, topics: Sequence[str]) -> list[Partition]:
        return [Partition(topic, number) for topic in topics for number in range(self.partitions)]

    def records(self, topic: str) -> list[Record]:
        """Everything in a topic, partition by partition."""
        return [record for partition in self.partitions_of([topic]) for record in self.log[partition]]

    async def append(self, topic: str, key: str, value: bytes, headers: Headers) -> None:
        partition = Partition(topic, zlib.crc32(key.encode()) % self.partitions)
        async with self._arrived:
            offset = len(self.log[partition])
            record = Record(topic, partition.number, offset, key, value, tuple(headers), self.clock())
            self.log[partition].append(record)
            self._arrived.notify_all()

    async def read(
        self,
        positions: Callable[[], dict[Partition, int]],
        timeout: float,
        limit: int,
        only: frozenset[Partition] | None = None,
    ) -> list[Record]:
        """Records from the positions that hold when they arrive; these are moved past them."""
        self.check()
        found = self._take(positions(), limit, only)
        if found:
            return found
        try:
            async with asyncio.timeout(timeout), self._arrived:
                while not (found := self._take(positions(), limit, only)):
                    await self._arrived.wait()
        except TimeoutError:
            return []
        return found

    def _take(self, positions: dict[Partition, int], limit: int, only: frozenset[Partition] | None) -> list[Record]:
        found: list[Record] = []
        for partition, position in positions.items():
            if only is not None and partition not in only:
                continue
            fresh = self.log[partition][position : position + limit - len(found)]
            positions[partition] = position + len(fresh)
            found.extend(fresh)
        now = asyncio.get_running_loop().time()
        return [replace(record, fetched=now) for record in found]

    async def rebalance(self, group: str, joining: "MemoryConsumer | None", leaving: "MemoryConsumer | None") -> None:
        members = self._groups[group]
        for member in members:
            # Kafka sends no revocation to a member that leaves by itself.
            if member is not leaving:
                await member.give_up()
        if joining is not None:
            members.append(joining)
        if leaving is not None and leaving in members:
            members.remove(leaving)
        first = 0
        for place, member in enumerate(members):
            # By ranges, as Kafka's members: the same numbers of all topics.
            end = first + self.partitions // len(members) + (place < self.partitions % len(members))
            mine = [each for each in self.partitions_of(member.topics) if first <= each.number < end]
            first = end
            await member.take({partition: self.committed.get((group, partition), 0) for partition in mine})


class MemoryProducer:
    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    async def send(self, topic: str, key: str, value: bytes, headers: Headers) -> "Future[None]":
        self._bus.check()
        if len(value) > MAX_MESSAGE_BYTES:
            raise MessageRefused(f"{len(value)} bytes are too many")
        await self._bus.append(topic, key, value, headers)
        sent: Future[None] = asyncio.get_running_loop().create_future()
        sent.set_result(None)
        return sent

    @property
    def healthy(self) -> bool:
        return not self._bus.down


class MemoryConsumer:
    def __init__(self, bus: MemoryBus, group: str, topics: Sequence[str], assignment: Assignment) -> None:
        self.topics = list(topics)
        self._bus = bus
        self._group = group
        self._assignment = assignment
        self._positions: dict[Partition, int] = {}

    async def start(self) -> None:
        self._bus.check()
        await self._bus.rebalance(self._group, joining=self, leaving=None)

    async def stop(self) -> None:
        self._positions = {}
        await self._bus.rebalance(self._group, joining=None, leaving=self)

    async def take(self, positions: dict[Partition, int]) -> None:
        self._positions = positions
        await self._assignment.assigned(frozenset(positions))

    async def give_up(self) -> None:
        await self._assignment.revoked(frozenset(self._positions))
        self._positions = {}

    async def seek(self, offsets: Mapping[Partition, int]) -> frozenset[Partition]:
        self._bus.check()
        for partition in self._positions:
            wanted = offsets.get(partition, 0)
            self._positions[partition] = wanted if wanted <= len(self._bus.log[partition]) else 0
        return frozenset(self._positions)

    async def poll(self, timeout: float, limit: int, partitions: frozenset[Partition] | None = None) -> list[Record]:
        return await self._bus.read(lambda: self._positions, timeout, limit, partitions)

    async def drained(self) -> dict[Partition, float]:
        now = asyncio.get_running_loop().time()
        return {at: now for at, position in self._positions.items() if position >= len(self._bus.log[at])}

    async def positions(self) -> dict[Partition, tuple[int, int]]:
        self._bus.check()
        return {partition: (position, len(self._bus.log[partition])) for partition, position in self._positions.items()}

    async def commit(self, offsets: dict[Partition, int]) -> None:
        self._bus.check()
        for partition, offset in offsets.items():
            if partition in self._positions:
                self._bus.committed[self._group, partition] = offset


class MemoryTail:
    def __init__(
        self,
        bus: MemoryBus,
        topics: Sequence[str],
        *,
        from_start: bool = False,
        offsets: Mapping[Partition, int] | None = None,
    ) -> None:
        self.offsets: dict[Partition, int] = dict(offsets or {})
        self._bus = bus
        self._topics = list(topics)
        self._from_start = from_start
        self._ends: dict[Partition, int] = {}

    async def start(self) -> None:
        self._bus.check()
        self._ends = {each: len(self._bus.log[each]) for each in self._bus.partitions_of(self._topics)}
        for each, end in self._ends.items():
            self.offsets.setdefault(each, 0 if self._from_start else end)

    async def stop(self) -> None:
        return

    async def poll(self, timeout: float) -> list[Record]:
        return await self._bus.read(lambda: self.offsets, timeout, 10_000)

    async def caught_up(self) -> bool:
        return all(self.offsets[each] >= end for each, end in self._ends.items())

    def answered(self) -> float:
        return float("-inf") if self._bus.down else asyncio.get_running_loop().time()
