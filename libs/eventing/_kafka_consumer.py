"""Kafka readers: members of consumer groups, and tails that read whole topics."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, KafkaError
from aiokafka.structs import ConsumerRecord

from libs.eventing._kafka_connection import BrokerArrival
from libs.eventing.bus import Assignment, BusUnavailable, Headers, Partition, Record

_log = structlog.get_logger("eventing.kafka")
_ANSWER_SECONDS: Final = 5.0
_COMMIT_SECONDS: Final = 1.0
_POSITIONS_SECONDS: Final = 0.05
# How long a poll waits for a fetch beyond the fetch's timeout.
_FETCH_SECONDS: Final = 0.1
# Must be longer than any fetch takes.
_WATCH_SECONDS: Final = 10.0
_TOPICS_SECONDS: Final = 5.0
_TOPICS_PAUSE_SECONDS: Final = 0.1
_NO_PARTITION: Final = TopicPartition("", -1)
Fetched = Mapping[TopicPartition, Sequence["ConsumerRecord[bytes, bytes]"]]


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, owner: "KafkaConsumer", assignment: Assignment) -> None:
        self._owner = owner
        self._assignment = assignment

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._owner.forget_fetched()
        await self._assignment.assigned(self._owner.partitions_of(assigned))

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._owner.forget_fetched()
        await self._assignment.revoked(self._owner.partitions_of(revoked))


class _Reader:
    """The base class of group members and tails."""

    def __init__(self, client: AIOKafkaConsumer, arrival: BrokerArrival, prefix: str) -> None:
        self._consumer = client
        self._arrival = arrival
        self._prefix = prefix
        self._fetching: asyncio.Task[Fetched] | None = None
        self._committing: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._last_polls: dict[TopicPartition, int | None] = {}

    async def _start(self) -> None:
        await self._arrival.wait()
        await self._consumer.start()
        self._watching = asyncio.create_task(self._watch(), name="kafka.watch")

    def partitions_of(self, partitions: set[TopicPartition]) -> frozenset[Partition]:
        return frozenset(map(self._partition, partitions))

    def _partition(self, at: TopicPartition) -> Partition:
        return Partition(at.topic[len(self._prefix) :], at.partition)

    async def stop(self) -> None:
        # `stop` runs in a task, since aiokafka's `stop` leaks the cancellation of its own fetches.
        stopping = asyncio.create_task(self._consumer.stop(), name="kafka.stop")
        await asyncio.wait({stopping}, timeout=_ANSWER_SECONDS)
        # The tasks are cancelled after `stop`, since a cancelled fetch would still count as running, and a commit
        # retries until the client stops.
        tasks: list[asyncio.Task[Any] | None] = [stopping, self._fetching, self._committing, self._watching]
        running = [task for task in tasks if task is not None]
        for task in running:
            task.cancel()
        [problem, *_] = await asyncio.gather(*running, return_exceptions=True)
        if problem is not None:
            _log.warning("consumer.stop_failed", problem=repr(problem))

    def forget_fetched(self) -> None:
        """Drops the fetched records of an assignment that has ended."""
        self._last_polls.clear()
        fetching = self._fetching
        if fetching is not None and fetching.done() and not fetching.cancelled() and fetching.exception() is None:
            self._fetching = None

    async def _fetch(self, timeout: float, limit: int | None, *partitions: TopicPartition) -> list[Record]:
        if self._watching is None or self._watching.done():
            raise BusUnavailable("the client has stopped fetching")
        # During a rebalance, aiokafka blocks the fetch. Cancelling it would mark the member as polling forever, so the
        # next poll waits for the same fetch.
        fetching = self._fetching = self._fetching or asyncio.create_task(
            self._consumer.getmany(*partitions, timeout_ms=int(timeout * 1000), max_records=limit), name="kafka.fetch"
        )
        await asyncio.wait({fetching}, timeout=timeout + _FETCH_SECONDS)
        if not fetching.done() or fetching is not self._fetching:
            return []
        self._fetching = None
        try:
            batches = fetching.result()
        except (KafkaError, asyncio.CancelledError) as problem:
            raise BusUnavailable(repr(problem)) from problem
        return [
            self._record(raw, fetched)
            for partition, batch in batches.items()
            for fetched in (self._answered(partition),)
            for raw in batch
        ]

    def _answered(self, partition: TopicPartition) -> float:
        """Returns the time, by the loop's clock, when the broker last answered a fetch of the partition."""
        now = asyncio.get_running_loop().time()
        assigned = partition in self._consumer.assignment()
        answered = self._consumer.last_poll_timestamp(partition) if assigned else None
        return now if answered is None else now - max(time.time() - answered / 1000, 0.0)

    def _record(self, raw: "ConsumerRecord[bytes, bytes]", fetched: float) -> Record:
        return Record(
            topic=raw.topic[len(self._prefix) :],
            partition=raw.partition,
            offset=raw.offset,
            key=(raw.key or b"").decode(errors="replace"),
            value=raw.value or b"",
            headers=cast(Headers, raw.headers),
            published=raw.timestamp / 1000,
            fetched=fetched,
        )

    async def _watch(self) -> None:
        """Returns once the client has stopped fetching although the brokers respond. Replace the client then."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            before, self._last_polls = self._last_polls, self._polls()
            silent = [each for each in before.items() if each in self._last_polls.items()]
            # A broker answers a connection's requests in order, so it answers any pending fetch first.
            if silent and await self._answer([partition for partition, _ in silent]):
                still_assigned = [each for each in silent if each in self._last_polls.items()]
                if any(each in self._polls().items() for each in still_assigned):
                    return

    def _polls(self) -> dict[TopicPartition, int | None]:
        """Returns the time of the last answered fetch of each partition. Omits paused partitions."""
        fetched = self._consumer.assignment() - self._consumer.paused()
        return {partition: self._consumer.last_poll_timestamp(partition) for partition in fetched}

    async def _answer(self, partitions: Sequence[TopicPartition]) -> bool:
        """Returns whether the brokers that lead the partitions respond."""
        try:
            async with asyncio.timeout(_WATCH_SECONDS):
                await self._consumer.end_offsets(list(partitions))
        except (KafkaError, TimeoutError):
            return False
        return True


class KafkaConsumer(_Reader):
    """A member of a Kafka consumer group that commits offsets explicitly."""

    def __init__(
        self,
        client: AIOKafkaConsumer,
        arrival: BrokerArrival,
        prefix: str,
        assignment: Assignment,
        topics: Sequence[str],
    ) -> None:
        super().__init__(client, arrival, prefix)
        self._assignment = assignment
        self._topics = topics

    async def start(self) -> None:
        try:
            await self._start()
            await self._await_topics()
            self._consumer.subscribe(self._topics, listener=_Listener(self, self._assignment))
        except (KafkaError, OSError) as problem:
            raise BusUnavailable(repr(problem)) from problem

    async def _await_topics(self) -> None:
        """Waits until the broker knows the topics.

        Otherwise, the member would get no partitions of a new topic until the next metadata refresh.
        """
        wanted = frozenset(self._topics)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TOPICS_SECONDS
        while missing := wanted - await self._consumer.topics():
            if loop.time() > deadline:
                raise BusUnavailable(f"these topics don't exist: {', '.join(sorted(missing))}")
            await asyncio.sleep(_TOPICS_PAUSE_SECONDS)

    async def seek(self, offsets: Mapping[Partition, int]) -> frozenset[Partition]:
        consumer = self._consumer
        if self._fetching is not None:
            # The pending fetch uses the client's position. During a rebalance, it doesn't end, and the caller seeks
            # again after the rebalance.
            if not (await asyncio.wait({self._fetching}, timeout=_ANSWER_SECONDS))[0]:
                return frozenset()
            self.forget_fetched()
        assigned = consumer.assignment()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                first = await consumer.beginning_offsets(list(assigned)) if assigned else {}
                end = await consumer.end_offsets(list(assigned)) if assigned else {}
            for partition in assigned:
                wanted = offsets.get(self._partition(partition), -1)
                found = wanted if first[partition] <= wanted <= end[partition] else first[partition]
                consumer.seek(partition, found)
        except (KafkaError, TimeoutError) as problem:
            raise BusUnavailable(f"the partitions can't be read: {problem!r}") from problem
        return self.partitions_of(assigned)

    async def poll(self, timeout: float, limit: int, partitions: frozenset[Partition] | None = None) -> list[Record]:
        consumer, assigned = self._consumer, self._consumer.assignment()
        if partitions is None:
            consumer.resume(*consumer.paused())
            return await self._fetch(timeout, limit)
        wanted = {TopicPartition(self._prefix + topic, number) for topic, number in partitions} & assigned
        consumer.resume(*wanted)
        consumer.pause(*(assigned - wanted))
        # A member must poll even if it requests no partitions. For aiokafka, an empty list means all partitions.
        records = await self._fetch(timeout, limit, *(wanted or [_NO_PARTITION]))
        # Without the pause, the client would fetch again immediately, and the next poll would return a single record.
        consumer.pause(*consumer.assignment())
        return records

    async def drained(self) -> dict[Partition, float]:
        found: dict[Partition, float] = {}
        if self._fetching is not None:
            # The client may hold fetched records that no poll has returned yet.
            return found
        try:
            # The client knows its positions, unless it has just lost a partition.
            async with asyncio.timeout(_POSITIONS_SECONDS):
                for partition in self._consumer.assignment():
                    end = self._consumer.highwater(partition)
                    # The last record's offset isn't enough: a transaction's end marker also has an offset, and the
                    # client skips it silently.
                    if end is not None and end <= await self._consumer.position(partition):
                        found[self._partition(partition)] = self._answered(partition)
        except (KafkaError, TimeoutError) as problem:
            _log.debug("consumer.position_unknown", problem=repr(problem))
        return found

    async def positions(self) -> dict[Partition, tuple[int, int]]:
        consumer, assigned = self._consumer, self._consumer.assignment()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                ends = await consumer.end_offsets(list(assigned)) if assigned else {}
                next_offsets = {partition: await consumer.position(partition) for partition in ends}
        except (KafkaError, TimeoutError) as problem:
            raise BusUnavailable(repr(problem)) from problem
        return {self._partition(partition): (next_offsets[partition], end) for partition, end in ends.items()}

    async def commit(self, offsets: dict[Partition, int]) -> None:
        assigned = self._consumer.assignment()
        wanted = {TopicPartition(self._prefix + topic, number): at for (topic, number), at in offsets.items()}
        # aiokafka rejects the whole commit if a rebalance has revoked one of its partitions.
        held = {partition: at for partition, at in wanted.items() if partition in assigned}
        if not held:
            return
        try:
            # aiokafka retries until a coordinator responds, even after the timeout. The next commit waits for this one,
            # so that older offsets never overwrite newer ones.
            async with asyncio.timeout(_COMMIT_SECONDS):
                if self._committing is not None:
                    await asyncio.wait({self._committing})
                committing = self._committing = asyncio.create_task(self._consumer.commit(held), name="kafka.commit")
                committing.add_done_callback(lambda done: None if done.cancelled() else done.exception())
                await asyncio.wait({committing})
            committing.result()
        except TimeoutError as problem:
            raise BusUnavailable("the offsets weren't committed in time") from problem
        except CommitFailedError:
            # A rebalance came first. The partition's new member starts at the last commit.
            _log.info("consumer.commit_after_rebalance", partitions=len(held))
        except KafkaError as problem:
            raise BusUnavailable(repr(problem)) from problem


class KafkaTail(_Reader):
    """A reader of all partitions of its topics. It keeps its positions when brokers restart."""

    def __init__(
        self,
        client: AIOKafkaConsumer,
        arrival: BrokerArrival,
        prefix: str,
        *,
        from_start: bool = False,
        offsets: Mapping[Partition, int] | None = None,
    ) -> None:
        super().__init__(client, arrival, prefix)
        self.offsets = dict(offsets or {})
        self._from_start = from_start
        self._ends: dict[TopicPartition, int] = {}

    async def start(self) -> None:
        try:
            await self._start()
            assigned = self._consumer.assignment()
            # A broker answers a connection's requests in order, so a running fetch would delay the seek.
            self._consumer.pause(*assigned)
            # The client looks up its positions: the end, or the first retained record. A seek during the lookup
            # wouldn't wake the client before its next tick, so wait for the lookup.
            async with asyncio.timeout(_ANSWER_SECONDS):
                first = {partition: await self._consumer.position(partition) for partition in assigned}
                self._ends = await self._consumer.end_offsets(assigned) if self._from_start else first
            for partition, offset in first.items():
                self._consumer.seek(partition, self.offsets.setdefault(self._partition(partition), offset))
            self._consumer.resume(*assigned)
        except (KafkaError, OSError) as problem:
            await self.stop()
            raise BusUnavailable(f"can't read the topics (do they exist?): {problem!r}") from problem

    async def poll(self, timeout: float) -> list[Record]:
        records = await self._fetch(timeout, None)
        self.offsets.update({Partition(record.topic, record.partition): record.offset + 1 for record in records})
        return records

    async def caught_up(self) -> bool:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return all([await self._consumer.position(each) >= end for each, end in self._ends.items()])
        except (KafkaError, TimeoutError) as problem:
            raise BusUnavailable(repr(problem)) from problem

    def answered(self) -> float:
        polls = [self._consumer.last_poll_timestamp(each) for each in self._ends]
        return min(map(self._answered, self._ends)) if polls and None not in polls else float("-inf")
