"""Processes each key's messages in order, and different keys concurrently."""

import asyncio
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol, TypeVar

import structlog
from psycopg import DataError

from libs.contracts.errors import cause_of
from libs.contracts.messages import PoisonMessage
from libs.eventing import _metrics as metrics
from libs.eventing.bus import Assignment, Bus, BusUnavailable, Consumer, Partition, Record, StaleOffset
from libs.eventing.dead_letters import DeadLetters
from libs.eventing.lag import set_lag
from libs.persistence import is_unreachable
from libs.retry import RetryPolicy

T = TypeVar("T")
_log = structlog.get_logger("eventing.consumer")
POLL_SECONDS: Final = 0.5
POLL_RECORDS: Final = 500
_COMMIT_SECONDS: Final = 1.0
_REVOKE_SECONDS: Final = 3.0
_RECONNECT: Final = RetryPolicy(first=1.0, longest=1.0)
# A message that fails for 15 minutes is dead-lettered.
_RETRIES: Final = RetryPolicy(first=0.1, longest=10.0, give_up_after=15 * 60.0)


class GivenUp(Exception):
    """A message can't be processed: it's a poison message, or it failed for too long."""

    def __init__(self, problem: Exception, attempts: int) -> None:
        self.reason = str(problem) if isinstance(problem, PoisonMessage) else repr(problem)
        self.cause = cause_of(problem)
        self.attempts = attempts
        super().__init__(self.reason)


class Attempts:
    """Retries the processing of messages. Counts and logs failed attempts."""

    def __init__(self, group: str, policy: RetryPolicy) -> None:
        self._group = group
        self._policy = policy
        metrics.expect_retries(group)

    async def run(self, call: Callable[[], Awaitable[T]], record: Record) -> T:
        """Retries ``call`` until it succeeds. ``record`` is the first message that depends on the call.

        Raises ``GivenUp`` and ``StaleOffset``.
        """
        attempts = 1

        def log(problem: Exception, attempt: int) -> None:
            nonlocal attempts
            attempts, outage = attempt + 1, is_outage(problem)
            metrics.retried(self._group, outage=outage)
            _log.warning(
                "message.retried",
                group=self._group,
                offset=record.offset,
                attempt=attempt,
                outage=outage,
                exc_info=None if outage else problem,
            )

        try:
            return await self._policy.run(call, when=_may_succeed, outage=is_outage, before_sleep=log)
        except StaleOffset:
            raise
        except Exception as problem:
            raise GivenUp(problem, attempts) from problem

    async def dead_letter(
        self,
        dead_letters: DeadLetters,
        record: Record,
        failure: GivenUp,
        before: Callable[[Record, str], Awaitable[None]] | None = None,
    ) -> None:
        """Runs ``before``, then dead-letters the message. Retries until the broker has acknowledged it.

        Commit the message's offset only afterwards, so that the message can't be lost.
        """

        async def put() -> None:
            if before is not None:
                await before(record, failure.cause)
            await dead_letters.put(record, reason=failure.reason, attempts=failure.attempts)

        def log(problem: Exception, _attempt: int) -> None:
            _log.warning("message.not_dead_lettered", group=self._group, offset=record.offset, problem=repr(problem))

        await replace(self._policy, give_up_after=math.inf).run(put, before_sleep=log)


def is_outage(problem: Exception) -> bool:
    """Returns whether an outage caused the failure. Lock conflicts aren't outages, since the message may cause them."""
    return isinstance(problem, BusUnavailable) or is_unreachable(problem)


def _may_succeed(problem: Exception) -> bool:
    # PostgreSQL rejects some values each time, such as text with NUL.
    return not isinstance(problem, PoisonMessage | StaleOffset | DataError)


class Handler(Protocol):
    """Handles a consumer's messages. Both methods can be called again for a message whose offset isn't committed."""

    async def deliver(self, record: Record) -> None:
        """Processes a record. Errors are retried, except ``PoisonMessage`` and ``DataError``, which dead-letter it."""

    async def give_up(self, record: Record, cause: str) -> None:
        """Publishes the failure of a message that is about to be dead-lettered. ``cause`` comes from ``cause_of``."""


class OffsetTracker:
    """Tracks a partition's messages, which start in order and finish in any order.

    All messages below the offset ``position`` are finished.
    """

    def __init__(self) -> None:
        self.position: int | None = None
        self._started: deque[int] = deque()
        self._done: set[int] = set()

    def start(self, offset: int) -> None:
        self._started.append(offset)

    def finish(self, offset: int) -> None:
        self._done.add(offset)
        while self._started and self._started[0] in self._done:
            first = self._started.popleft()
            self._done.discard(first)
            self.position = first + 1

    @property
    def first_unfinished(self) -> int | None:
        """Returns the offset of the first unfinished message, or None if all messages are finished."""
        return self._started[0] if self._started else None

    @property
    def unfinished(self) -> int:
        return len(self._started) - len(self._done)


class GroupMember(Assignment, ABC):
    """A member of a consumer group. ``joined`` is true once partitions, possibly none, are assigned and being read."""

    def __init__(
        self,
        bus: Bus,
        dead_letters: DeadLetters,
        *,
        group: str,
        topics: Sequence[str],
        retries: RetryPolicy,
        linger: bool = False,
    ) -> None:
        self.joined = False
        self.group = group
        self._bus = bus
        self._dead_letters = dead_letters
        self._topics = topics
        self._linger = linger
        self._attempts = Attempts(group, retries)
        self._consumer: Consumer | None = None
        self._stopping = asyncio.Event()
        self._committed: dict[Partition, int] = {}
        self._committed_at = 0.0
        dead_letters.expect(topics)

    @abstractmethod
    async def _advance(self, consumer: Consumer) -> None:
        """Fetches a batch of messages and starts processing it."""

    @abstractmethod
    async def _let_go(self) -> None:
        """Ends the processing of messages and forgets the partitions."""

    @abstractmethod
    def _first_unfinished(self, partition: Partition, position: int) -> int:
        """Returns the offset of the first unfinished message, or ``position`` if all fetched messages are finished."""

    @abstractmethod
    def _finished(self) -> Mapping[Partition, int]:
        """Returns the offset below which all messages are finished, by partition."""

    async def run(self) -> None:
        """Consumes messages until ``stop`` is called. If the broker is unreachable, waits for the broker."""

        def log(problem: Exception, _attempt: int) -> None:
            _log.warning("consumer.unreachable", group=self.group, problem=str(problem))

        await _RECONNECT.run(self._run_client, on=BusUnavailable, before_sleep=log)

    async def _run_client(self) -> None:
        if self._stopping.is_set():
            return
        loop = asyncio.get_running_loop()
        consumer = self._consumer = self._bus.consumer(self.group, self._topics, self, linger=self._linger)
        try:
            await consumer.start()
            while not self._stopping.is_set():
                await self._advance(consumer)
                if loop.time() - self._committed_at >= _COMMIT_SECONDS:
                    await self._commit(consumer)
                    self._committed_at = loop.time()
        finally:
            await self._let_go()
            await consumer.stop()

    async def stop(self) -> None:
        """Stops fetching. Messages in progress have 3 s to finish before ``run`` returns."""
        self._stopping.set()

    async def measure(self) -> None:
        """Sets the lag metric of this member's partitions. Raises ``BusUnavailable``."""
        consumer = self._consumer
        if consumer is None or not self.joined:
            return
        behind = dict.fromkeys(self._topics, 0)
        for partition, (position, end) in (await consumer.positions()).items():
            behind[partition.topic] += max(end - self._first_unfinished(partition, position), 0)
        for topic, messages in behind.items():
            set_lag(self.group, topic, messages)

    async def _commit(self, consumer: Consumer) -> None:
        # A new assignment, which replaces this attribute, may start during the calls below.
        committed = self._committed
        moved = {partition: at for partition, at in self._finished().items() if committed.get(partition) != at}
        if not moved:
            return
        try:
            await consumer.commit(moved)
        except BusUnavailable as problem:
            _log.warning("consumer.commit_failed", group=self.group, problem=str(problem))
            return
        committed |= moved

    async def _end_work(self, tasks: Collection[asyncio.Task[None]]) -> None:
        """Waits up to 3 s for the tasks to end, then commits the offsets of finished messages."""
        if tasks:
            _, unfinished = await asyncio.wait(tasks, timeout=_REVOKE_SECONDS)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
        # Offsets are committed before the partitions move, so that the next member starts after the finished messages.
        if self._consumer is not None:
            await self._commit(self._consumer)


class _InWork(NamedTuple):
    """A record to be processed, and its partition's tracker when it was fetched. A rebalance replaces the tracker."""

    record: Record
    tracker: OffsetTracker


class ConsumerLoop(GroupMember):
    """A consumer that handles messages individually, with a queue and a task for each key.

    Fetching pauses while ``high_water`` messages are unfinished. With ``linger``, a fetch waits up to half a second for
    several messages.
    """

    def __init__(
        self,
        bus: Bus,
        handler: Handler,
        dead_letters: DeadLetters,
        *,
        group: str,
        topics: Sequence[str],
        high_water: int = 1000,
        linger: bool = False,
        retries: RetryPolicy = _RETRIES,
    ) -> None:
        super().__init__(bus, dead_letters, group=group, topics=topics, retries=retries, linger=linger)
        self._handler = handler
        self._high_water = high_water
        self._trackers: dict[Partition, OffsetTracker] = {}
        self._in_work: dict[tuple[Partition, str], deque[_InWork]] = {}
        self._tasks: dict[tuple[Partition, str], asyncio.Task[None]] = {}

    async def _advance(self, consumer: Consumer) -> None:
        wanted: frozenset[Partition] | None = frozenset() if self._over_limit() else None
        for record in await consumer.poll(POLL_SECONDS, POLL_RECORDS, wanted):
            self._enqueue(record)

    def _over_limit(self) -> bool:
        return sum(tracker.unfinished for tracker in self._trackers.values()) >= self._high_water

    def _enqueue(self, record: Record) -> None:
        partition = Partition(record.topic, record.partition)
        tracker = self._trackers.get(partition)
        if tracker is None:
            # The partition was revoked after the fetch. The partition's new member reads the record, too.
            return
        tracker.start(record.offset)
        key, given = (partition, record.key), _InWork(record, tracker)
        if key in self._in_work:
            self._in_work[key].append(given)
            return
        self._in_work[key] = deque((given,))
        self._tasks[key] = asyncio.create_task(self._work_through(key), name=f"consume {self.group}")

    async def _work_through(self, key: tuple[Partition, str]) -> None:
        """Processes the records of one key in order."""
        records = self._in_work[key]
        try:
            while records:
                await self._work(records[0])
                records.popleft()
        finally:
            del self._in_work[key], self._tasks[key]

    async def _work(self, given: _InWork) -> None:
        record = given.record
        try:
            await self._attempts.run(lambda: self._handler.deliver(record), record)
        except GivenUp as failure:
            await self._attempts.dead_letter(self._dead_letters, record, failure, self._handler.give_up)
        given.tracker.finish(record.offset)

    def _first_unfinished(self, partition: Partition, position: int) -> int:
        tracker = self._trackers.get(partition)
        first = None if tracker is None else tracker.first_unfinished
        return position if first is None else first

    def _finished(self) -> Mapping[Partition, int]:
        positions = {partition: tracker.position for partition, tracker in self._trackers.items()}
        return {partition: at for partition, at in positions.items() if at is not None}

    async def assigned(self, partitions: frozenset[Partition]) -> None:
        # Reading restarts at each partition's committed offset, even if this member already had the partition.
        self._trackers, self._committed = {partition: OffsetTracker() for partition in partitions}, {}
        self.joined = True

    async def revoked(self, partitions: frozenset[Partition]) -> None:
        """Waits up to 3 s for messages in progress. The partitions' new members read unfinished messages again."""
        await self._drain(partitions)
        for partition in partitions:
            self._trackers.pop(partition, None)

    async def _let_go(self) -> None:
        self.joined = False
        await self._drain(frozenset(self._trackers))
        self._trackers.clear()

    async def _drain(self, partitions: frozenset[Partition]) -> None:
        keys = [key for key in self._in_work if key[0] in partitions]
        for key in keys:
            # Messages that haven't started are dropped. The partitions' new members read them again.
            while len(self._in_work[key]) > 1:
                self._in_work[key].pop()
        await self._end_work([self._tasks[key] for key in keys])
