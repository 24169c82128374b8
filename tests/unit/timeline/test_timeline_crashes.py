"""The timeline under random crashes at every point between reading and committing, on a bus and in a store in memory.

The time is virtual and every run follows from its seed. Members of the group die before and after they store, before
and after they commit, or freeze and wake up when their partitions are somebody else's; the broker gives records
again, outboxes publish rows again, clocks of producers differ, partitions are fetched at different times.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson
import pytest

from libs.contracts.messages import Envelope
from libs.contracts.timeline import TimelineFilter
from libs.contracts.timestamps import now_text
from libs.eventing.batches import BatchConsumer
from libs.eventing.bus import Assignment, OffsetMove, Partition, Record
from libs.eventing.dead_letters import DeadLetters
from libs.eventing.messages import PayloadReader
from services.gateway.domain.timeline import TimelineEvent
from services.timeline.entrypoints.log import TimelineEvents
from tests.support.memory_bus import MemoryBus, MemoryConsumer
from tests.support.seeds import seeds
from tests.support.timeline import FakeTimeline
from tests.support.waiting import elapse, run_in_virtual_time, until

SERVICES = ("runtime", "artifacts", "ingestion")
TOPICS = [f"{service}-events" for service in SERVICES]
COMPANIES = ("acme", "beta", "cargo")
SESSION_TIMEOUT = 10.0
REBALANCE_TIMEOUT = 5.0
# Cause and effect are this far apart; clocks and fetches by less.
APART = 1.05
SKEW = 0.1
FETCH = 0.35
LEADERLESS = 0.002


class Died(BaseException):
    """The process of a member is gone; nothing of it happens any more, and nobody retries it."""


@dataclass
class Process:
    """One member's process: what may happen to it, and whether it has."""

    chance: random.Random
    risk: float
    alive: bool = True
    frozen: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.frozen.set()

    async def point(self) -> None:
        """A point at which the process may die."""
        await self.frozen.wait()
        if self.alive and self.chance.random() < self.risk:
            self.alive = False
        if not self.alive:
            raise Died


class MemberBus(MemoryBus):
    """The bus as one process sees it: shared by all, with a fetch of its own for each partition."""

    def __init__(self, shared: MemoryBus, process: Process) -> None:
        super().__init__(partitions=shared.partitions)
        self.log, self.committed, self._groups = shared.log, shared.committed, shared._groups
        self.clock = shared.clock
        self.process = process
        self.consumers: list[FetchingConsumer] = []

    def consumer(
        self, group: str, topics: Sequence[str], assignment: Assignment, *, linger: bool = False
    ) -> "FetchingConsumer":
        self.consumers.append(FetchingConsumer(self, group, topics, assignment))
        return self.consumers[-1]


class FetchingConsumer(MemoryConsumer):
    """Knows of each partition what its last fetch had: ``FETCH`` seconds ago, or longer while it has no leader."""

    def __init__(self, bus: MemberBus, group: str, topics: Sequence[str], assignment: Assignment) -> None:
        super().__init__(bus, group, topics, assignment)
        self._process = bus.process
        self._fetched: dict[Partition, tuple[float, int]] = {}
        self._away: dict[Partition, float] = {}

    async def poll(self, timeout: float, limit: int, partitions: frozenset[Partition] | None = None) -> list[Record]:
        await elapse(self._process.chance.uniform(0.001, max(timeout, 0.002)))
        await self._process.point()
        now = asyncio.get_running_loop().time()
        found: list[Record] = []
        for partition in sorted(self._positions):
            at, _ = self._fetched.get(partition, (0.0, 0))
            if self._away.get(partition, 0.0) > now:
                continue
            if self._process.chance.random() < LEADERLESS:
                self._away[partition] = now + self._process.chance.uniform(0.5, 4.0)
            elif now - at > FETCH or self._process.chance.random() < 0.5:
                self._fetched[partition] = (now, len(self._bus.log[partition]))
            if partition not in (partitions or ()):
                continue
            at, end = self._fetched.get(partition, (now, 0))
            position = self._positions[partition]
            fresh = self._bus.log[partition][position : min(end, position + self._process.chance.randint(1, limit))]
            self._positions[partition] = position + len(fresh)
            found += [Record(*_fields(record), fetched=at) for record in fresh]
        return found

    async def drained(self) -> dict[Partition, float]:
        fetched = {partition: self._fetched.get(partition, (0.0, 0)) for partition in self._positions}
        return {each: at for each, (at, end) in fetched.items() if at and self._positions[each] >= end}

    async def commit(self, offsets: dict[Partition, int]) -> None:
        await self._process.point()
        await super().commit(offsets)
        await self._process.point()

    async def give_up(self) -> None:
        if not self._process.frozen.is_set():
            # It is not told: it reads and stores on when it wakes up.
            return
        try:
            async with asyncio.timeout(REBALANCE_TIMEOUT):
                await super().give_up()
        except (Died, TimeoutError):
            # The group hears nothing of it, and goes on.
            self._positions = {}

    async def stop(self) -> None:
        if self._process.alive:
            await super().stop()


def _fields(record: Record) -> tuple[object, ...]:
    return (
        record.topic, record.partition, record.offset, record.key, record.value, record.headers, record.published,
    )  # fmt: skip


class Store(FakeTimeline):
    """The log as one process reaches it: it may die before a transaction, or after the commit without an answer."""

    def __init__(self, shared: FakeTimeline, process: Process) -> None:
        self.events, self.stored_offsets = shared.events, shared.stored_offsets
        self._process = process

    async def store(self, events: Sequence[TimelineEvent], moves: Mapping[Partition, OffsetMove]) -> int:
        await self._process.point()
        await elapse(self._process.chance.uniform(0.0, 0.05))
        await self._process.point()
        stored = await super().store(events, moves)
        await self._process.point()
        return stored


@dataclass
class Published:
    """The events that producers have sent, and the cause of each effect."""

    ids: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    effects: dict[str, str] = field(default_factory=dict)


class Simulation:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.bus = MemoryBus(partitions=self.chance.choice((1, 3, 4)))
        self.timeline = FakeTimeline()
        self.published = Published()
        self.seen: list[list[TimelineEvent]] = []
        self._members: list[asyncio.Task[None]] = []
        self._ended = False

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self.bus.clock = lambda: loop.time() + self.chance.uniform(-SKEW, SKEW)
        members = [asyncio.create_task(self._member()) for _ in range(self.chance.randint(1, 3))]
        readers = [asyncio.create_task(self._reader(company)) for company in COMPANIES for _ in range(2)]
        await asyncio.gather(*(self._request(number) for number in range(12)))
        self._ended = True
        published = sum(map(len, self.published.ids.values()))
        async with asyncio.timeout(600):
            await until(lambda: sum(map(len, self.timeline.events.values())) >= published, pause=0.5)
        await asyncio.gather(*readers)
        for member in members:
            member.cancel()
        await asyncio.gather(*members, return_exceptions=True)

    async def _request(self, number: int) -> None:
        """Publishes the events that one request leads to, of several services, each the cause of the next."""
        label, company = f"label-{number}", self.chance.choice(COMPANIES)
        sequences: dict[str, int] = defaultdict(int)
        sent: list[tuple[str, Envelope]] = []
        await elapse(self.chance.uniform(0, 10))
        cause: str | None = None
        for step in range(self.chance.randint(2, 8)):
            service = self.chance.choice(SERVICES)
            subject = f"{service}-{number}-{self.chance.randint(0, 1)}"
            sequences[subject] += 1
            envelope = Envelope(
                id=f"{label}-{step}", type=f"aes.{service}.thing.happened.v1", source=f"/aes/{service}",
                subject=subject, time=now_text(), correlation_id=label, company_id=company, causation_id=cause,
                sequence=sequences[subject],
            )  # fmt: skip
            await self._send(service, envelope)
            sent.append((service, envelope))
            self.published.ids[company].append(envelope.id)
            if cause is not None:
                self.published.effects[envelope.id] = cause
            cause = envelope.id
            await elapse(self.chance.choice((APART, APART, 2.0, 5.0)))
            if self.chance.random() < 0.3:
                # A command came again, and its recorded outcome is published again.
                await self._send(*self.chance.choice(sent))

    async def _send(self, service: str, envelope: Envelope) -> None:
        payload = orjson.dumps({"session_id": envelope.subject})
        for _ in range(2 if self.chance.random() < 0.1 else 1):
            await self.bus.append(f"{service}-events", envelope.correlation_id, payload, envelope.headers())

    async def _member(self) -> None:
        """A process that is started again each time it has died."""
        while True:
            process = Process(self.chance, 0.0 if self._ended else self.chance.choice((0.0, 0.005, 0.05)))
            bus = MemberBus(self.bus, process)
            consumer = BatchConsumer(
                bus,
                TimelineEvents(Store(self.timeline, process), PayloadReader(_no_fetch)),
                DeadLetters(bus.producer(), consumer="gateway"),
                group="gateway-timeline",
                topics=TOPICS,
            )
            running = asyncio.create_task(consumer.run())
            try:
                await self._live(process, bus, running)
            finally:
                process.alive = False
                process.frozen.set()
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
            await self._expel(bus, self.chance.uniform(0.0, SESSION_TIMEOUT))

    async def _live(self, process: Process, bus: MemberBus, running: "asyncio.Task[None]") -> None:
        while process.alive and not running.done():
            await elapse(self.chance.uniform(0.2, 4.0))
            if self._ended:
                process.risk = 0.0
            elif self.chance.random() < 0.1:
                # It freezes for longer than the group waits, and goes on as if nothing had happened.
                process.frozen.clear()
                await self._expel(bus, SESSION_TIMEOUT)
                await elapse(self.chance.uniform(0.0, 3.0))
                process.frozen.set()
                await elapse(self.chance.uniform(0.0, 3.0))
                return

    async def _expel(self, bus: MemberBus, after: float) -> None:
        """The group goes on without a member that it has not heard of; the member is not told."""
        await elapse(after)
        for consumer in bus.consumers:
            if consumer in self.bus._groups["gateway-timeline"]:
                await self.bus.rebalance("gateway-timeline", joining=None, leaving=consumer)

    async def _reader(self, company: str) -> None:
        """Reads by position, now and then, like any client on any replica."""
        seen: list[TimelineEvent] = []
        self.seen.append(seen)
        after = 0
        while not self._ended or after < len(self.published.ids[company]):
            await elapse(self.chance.uniform(0.05, 3.0))
            page = await self.timeline.page(
                TimelineFilter(company_id=company), after=after, limit=self.chance.randint(1, 50)
            )
            seen += page.events
            after = page.next


async def _no_fetch(owner: str, path: str, company_id: str) -> bytes:
    raise AssertionError(f"{owner} is not asked for {path} of {company_id}")


def check(simulation: Simulation) -> None:
    published = simulation.published
    for seen in simulation.seen:
        if not seen:
            continue
        company = seen[0].company_id
        assert [event.position for event in seen] == list(range(1, len(seen) + 1))
        assert sorted(event.id for event in seen) == sorted(published.ids[company])
        sequences: dict[str, list[int]] = defaultdict(list)
        for event in seen:
            sequences[event.subject].append(event.sequence)
        assert all(found == list(range(1, len(found) + 1)) for found in sequences.values())
        places = {event.id: place for place, event in enumerate(seen)}
        for effect, cause in published.effects.items():
            if effect in places:
                assert places[cause] < places[effect], f"{effect} before {cause}"


@pytest.mark.rule(31)
@pytest.mark.crash("the timeline's writer")
@seeds(100, slow=200)
def test_readers_see_everything_once_in_order_whatever_dies(seed: int) -> None:
    simulation = Simulation(seed)
    run_in_virtual_time(simulation.run())
    check(simulation)
