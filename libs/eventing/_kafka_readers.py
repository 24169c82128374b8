"""The broker port on Apache Kafka: group members and tails."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Final, cast

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, KafkaError
from aiokafka.structs import ConsumerRecord

from libs.eventing._bus import Assignment, BusUnavailable, Headers, Partition, Record
from libs.eventing._kafka_lone_member import LoneMember
from libs.eventing._kafka_long_fetches import LongFetches

_log = structlog.get_logger("eventing.kafka")
_ANSWER_SECONDS: Final = 5.0
_COMMIT_SECONDS: Final = 1.0
# Of fetches at rest: the answers tell a tail's reader that he misses nothing, which he takes to be so for ten seconds.
_TAIL_SECONDS: Final = 6.0
_TOPICS_SECONDS: Final = 5.0
_TOPICS_PAUSE_SECONDS: Final = 0.1


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, owner: "KafkaConsumer", assignment: Assignment) -> None:
        self._owner = owner
        self._assignment = assignment

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._owner.fetches.wake()
        self._owner.renew_pause()
        await self._assignment.assigned(self._owner.partitions_of(assigned))

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self._assignment.revoked(self._owner.partitions_of(revoked))


class _Reader:
    """Base of group members and tails: names, records, errors."""

    def __init__(self, client: AIOKafkaConsumer, prefix: str, fetches: LongFetches) -> None:
        self.fetches = fetches
        self._consumer = client
        self._prefix = prefix
        self._polling: asyncio.Timeout | None = None
        self._is_woken = False

    async def _start(self) -> None:
        await self._consumer.start()
        self.fetches.begin()

    def partitions_of(self, partitions: set[TopicPartition]) -> frozenset[Partition]:
        return frozenset(Partition(self._declared(tp.topic), tp.partition) for tp in partitions)

    def _declared(self, topic: str) -> str:
        return topic[len(self._prefix) :]

    async def stop(self) -> None:
        try:
            async with asyncio.timeout(5.0):
                await self._consumer.stop()
        except (TimeoutError, KafkaError) as problem:
            _log.warning("consumer.stop_failed", problem=repr(problem))

    def wake(self) -> None:
        self._is_woken = True
        if self._polling is not None and not self._polling.expired():
            self._polling.reschedule(asyncio.get_running_loop().time())

    async def _fetch(self, timeout: float, limit: int | None, *partitions: TopicPartition) -> list[Record]:
        timeout = 0.0 if self._is_woken else timeout
        if self._consumer._fetcher.error_future.done():
            # Polls would find nothing for ever.
            raise BusUnavailable("the client has ended its fetches")
        try:
            # During a rebalance aiokafka waits for its end, however long that takes.
            async with asyncio.timeout(timeout + 1.0) as self._polling:
                batches = await self._consumer.getmany(*partitions, timeout_ms=int(timeout * 1000), max_records=limit)
        except TimeoutError:
            return []
        except KafkaError as problem:
            raise BusUnavailable(repr(problem)) from problem
        finally:
            self._polling, self._is_woken = None, False
            # A poll that did not end by itself would count as one that goes on, and a member that polls no more is
            # taken for a hanging one.
            subscription = self._consumer._subscription
            subscription._fetch_count, subscription._last_fetch_ended = 0, time.monotonic()
        return [
            self._record(raw, fetched)
            for partition, batch in batches.items()
            for fetched in (self._answered(partition),)
            for raw in batch
        ]

    def _answered(self, _: TopicPartition) -> float:
        """When records of the partition were fetched, by the clock of the loop; at the latest now."""
        return asyncio.get_running_loop().time()

    def _record(self, raw: "ConsumerRecord[bytes, bytes]", fetched: float) -> Record:
        return Record(
            topic=self._declared(raw.topic),
            partition=raw.partition,
            offset=raw.offset,
            key=(raw.key or b"").decode(errors="replace"),
            value=raw.value or b"",
            headers=cast(Headers, raw.headers),
            published=raw.timestamp / 1000,
            fetched=fetched,
        )


class KafkaConsumer(_Reader):
    """A group member; offsets are committed explicitly."""

    def __init__(
        self,
        client: AIOKafkaConsumer,
        prefix: str,
        assignment: Assignment,
        topics: Sequence[str],
        lone: LoneMember,
    ) -> None:
        super().__init__(client, prefix, LongFetches(client))
        self._assignment = assignment
        self._topics = topics
        self._lone = lone
        self._paused = False

    async def start(self) -> None:
        try:
            await self._start()
            self._lone.begin()
            await self._await_topics()
            self._consumer.subscribe(self._topics, listener=_Listener(self, self._assignment))
        except (KafkaError, OSError) as problem:
            raise BusUnavailable(repr(problem)) from problem

    async def _await_topics(self) -> None:
        """Waits for topics that were created a moment ago.

        A member that joins before its broker knows them is assigned nothing, until the metadata's age ends.
        """
        wanted = frozenset(self._topics)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TOPICS_SECONDS
        while missing := wanted - await self._consumer.topics():
            if loop.time() > deadline:
                raise BusUnavailable(f"there are no such topics: {', '.join(sorted(missing))}")
            await asyncio.sleep(_TOPICS_PAUSE_SECONDS)

    def pause(self, paused: bool) -> None:
        self._paused = paused
        self.renew_pause()

    def renew_pause(self) -> None:
        """Set the pause flags again: aiokafka loses them at every rebalance, also during a fetch."""
        if self._paused:
            self._consumer.pause(*self._consumer.assignment())
        elif self._consumer.paused():
            self._consumer.resume(*self._consumer.paused())

    async def poll(self, timeout: float, limit: int) -> list[Record]:
        records = await self._fetch(timeout, limit)
        self.fetches.polled(bool(records) or self._paused)
        return records

    async def positions(self) -> dict[Partition, tuple[int, int]]:
        consumer, assigned = self._consumer, self._consumer.assignment()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                ends = self._known_ends(assigned) or await consumer.end_offsets(list(assigned)) if assigned else {}
                next_offsets = {partition: await consumer.position(partition) for partition in ends}
        except (KafkaError, TimeoutError) as problem:
            raise BusUnavailable(repr(problem)) from problem
        return {
            Partition(self._declared(partition.topic), partition.partition): (next_offsets[partition], end)
            for partition, end in ends.items()
        }

    def _known_ends(self, assigned: set[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of all assigned partitions at rest, where a question to the broker would wait for the fetch."""
        ends = {each: self._consumer.highwater(each) for each in assigned} if self.fetches.resting else {}
        return ends if None not in ends.values() else {}

    async def commit(self, offsets: dict[Partition, int]) -> None:
        assigned = self._consumer.assignment()
        wanted = {TopicPartition(self._prefix + topic, number): at for (topic, number), at in offsets.items()}
        # aiokafka refuses the whole commit for one partition that a rebalance has just taken away.
        held = {partition: at for partition, at in wanted.items() if partition in assigned}
        if not held:
            return
        try:
            # Without a limit aiokafka tries until a coordinator answers, and nothing is polled meanwhile.
            async with asyncio.timeout(_COMMIT_SECONDS):
                await self._consumer.commit(held)
        except TimeoutError as problem:
            _retrieve_abandoned_commits()
            raise BusUnavailable("the offsets were not committed in time") from problem
        except CommitFailedError:
            # A rebalance came first; the partition's new owner reads from the last commit on.
            _log.info("consumer.commit_overtaken", partitions=len(held))
        except KafkaError as problem:
            raise BusUnavailable(repr(problem)) from problem


def _retrieve_abandoned_commits() -> None:
    """aiokafka shields a commit's request from its cancellation; asyncio would log the failure that nobody awaits."""
    for task in asyncio.all_tasks():
        if getattr(task.get_coro(), "__name__", "") == "_do_commit_offsets":
            task.add_done_callback(lambda done: None if done.cancelled() else done.exception())


class KafkaTail(_Reader):
    """A reader of all partitions; positions survive broker restarts."""

    def __init__(
        self,
        client: AIOKafkaConsumer,
        prefix: str,
        *,
        from_start: bool = False,
        offsets: Mapping[Partition, int] | None = None,
    ) -> None:
        super().__init__(client, prefix, LongFetches(client, _TAIL_SECONDS))
        self.offsets = dict(offsets or {})
        self._from_start = from_start
        self._ends: dict[TopicPartition, int] = {}

    async def start(self) -> None:
        try:
            await self._start()
            assigned = self._consumer.assignment()
            # The broker answers a connection's requests one after the other: a fetch would be waited for.
            self._consumer.pause(*assigned)
            # The client looks for its positions, the end or the first record kept. It is waited for: a seek in the
            # moment in which that ends would not wake the client, which then fetches nothing until its next tick.
            async with asyncio.timeout(_ANSWER_SECONDS):
                first = {partition: await self._consumer.position(partition) for partition in assigned}
                self._ends = await self._consumer.end_offsets(assigned) if self._from_start else first
            for partition, offset in first.items():
                place = Partition(self._declared(partition.topic), partition.partition)
                self._consumer.seek(partition, self.offsets.setdefault(place, offset))
            self._consumer.resume(*assigned)
        except (KafkaError, OSError) as problem:
            await self.stop()
            raise BusUnavailable(f"cannot read the topics (do they exist?): {problem!r}") from problem

    async def poll(self, timeout: float) -> list[Record]:
        records = await self._fetch(timeout, None)
        self.fetches.polled(bool(records))
        self.offsets.update({record.topic_partition: record.offset + 1 for record in records})
        return records

    async def caught_up(self) -> bool:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return all([await self._consumer.position(each) >= end for each, end in self._ends.items()])
        except (KafkaError, TimeoutError) as problem:
            raise BusUnavailable(repr(problem)) from problem

    def answered(self) -> float:
        answered: list[int | None] = [self._consumer.last_poll_timestamp(each) for each in self._ends]
        first = min((-1 if each is None else each for each in answered), default=-1)
        if first < 0:
            return float("-inf")
        return asyncio.get_running_loop().time() - max(time.time() - first / 1000, 0.0)
