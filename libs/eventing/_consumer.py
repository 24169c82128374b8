"""Consumes topics: concurrently across keys, in order within a key; commits offsets past what is done."""

import asyncio
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol, TypeVar

import structlog

from libs.contracts.errors import cause_of
from libs.eventing import _metrics as metrics
from libs.eventing.bus import Assignment, Bus, BusUnavailable, Consumer, Overtaken, Partition, PoisonMessage, Record
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
# A message that has failed for a quarter of an hour is dead-lettered.
_RETRIES: Final = RetryPolicy(first=0.1, longest=10.0, give_up_after=15 * 60.0)


class GivenUp(Exception):
    """A message is poison, or has failed for too long."""

    def __init__(self, problem: Exception, attempts: int) -> None:
        self.reason = str(problem) if isinstance(problem, PoisonMessage) else repr(problem)
        self.cause = cause_of(problem)
        self.attempts = attempts
        super().__init__(self.reason)


class Attempts:
    """Counts and logs failed attempts of a group."""

    def __init__(self, group: str, policy: RetryPolicy) -> None:
        self._group = group
        self._policy = policy
        metrics.expect_retries(group)

    async def run(self, call: Callable[[], Awaitable[T]], record: Record) -> T:
        """Calls until it succeeds; ``record`` is the first message concerned. Raises ``GivenUp`` and ``Overtaken``."""
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
        except Overtaken:
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
        """Puts the message to the dead letters, after ``before``, however long that takes.

        A message whose offset moved on without a dead letter would be lost.
        """

        async def put() -> None:
            if before is not None:
                await before(record, failure.cause)
            await dead_letters.put(record, reason=failure.reason, attempts=failure.attempts)

        def log(problem: Exception, _attempt: int) -> None:
            _log.warning("message.not_dead_lettered", group=self._group, offset=record.offset, problem=repr(problem))

        await replace(self._policy, give_up_after=math.inf).run(put, before_sleep=log)


def is_outage(problem: Exception) -> bool:
    """Outages do not count towards giving up. Held locks do: a deadlock may be of the message's own making."""
    return isinstance(problem, BusUnavailable) or is_unreachable(problem)


def _may_succeed(problem: Exception) -> bool:
    return not isinstance(problem, PoisonMessage | Overtaken)


class Handler(Protocol):
    """Handles messages. Both methods may be called again for a message whose offset was not committed."""

    async def deliver(self, record: Record) -> None:
        """Done when it returns. ``PoisonMessage`` is dead-lettered, other errors are retried."""

    async def give_up(self, record: Record, cause: str) -> None:
        """Called before the message is dead-lettered, to publish its failure. ``cause``: see ``cause_of``."""


class OffsetTracker:
    """The finished messages of a partition: they start in offset order and finish in any order.

    ``position``: the offset before which everything is finished; it moves past a finished prefix only.
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
        """The offset of the first unfinished message, if there is one."""
        return self._started[0] if self._started else None

    @property
    def unfinished(self) -> int:
        return len(self._started) - len(self._done)


class GroupMember(Assignment, ABC):
    """A member of a group of consumers that runs until it is stopped, and makes its client anew after an outage.

    ``joined``: the group has given this member its, possibly empty, assignment, and it reads there.
    """

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
        """Fetches messages, if there are any, and hands them on."""

    @abstractmethod
    async def _let_go(self) -> None:
        """Ends the work on all partitions and forgets them."""

    @abstractmethod
    def _first_unfinished(self, partition: Partition, position: int) -> int:
        """The offset of the partition's first unfinished message; ``position`` comes after all that were polled."""

    @abstractmethod
    def _finished(self) -> Mapping[Partition, int]:
        """The offsets of assigned partitions before which everything is finished."""

    async def run(self) -> None:
        """Consume until ``stop``; waits for an unreachable broker."""

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
        """Fetch nothing more; ``run`` returns when messages in work are done or left uncommitted."""
        self._stopping.set()

    async def measure(self) -> None:
        """Report the lag of this member's partitions to Prometheus. Raises ``BusUnavailable``."""
        consumer = self._consumer
        if consumer is None or not self.joined:
            return
        behind = dict.fromkeys(self._topics, 0)
        for partition, (position, end) in (await consumer.positions()).items():
            behind[partition.topic] += max(end - self._first_unfinished(partition, position), 0)
        for topic, messages in behind.items():
            set_lag(self.group, topic, messages)

    async def _commit(self, consumer: Consumer) -> None:
        # That of this assignment: another one may begin meanwhile, without what was committed for this one.
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
        """Gives the tasks 3 s to end, and commits what is finished."""
        if tasks:
            _, unfinished = await asyncio.wait(tasks, timeout=_REVOKE_SECONDS)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
        # While the partitions are still assigned: their next owner begins after what was done here.
        if self._consumer is not None:
            await self._commit(self._consumer)


class _InWork(NamedTuple):
    """``tracker``: that of the record's own assignment. After a rebalance its partition may have another one."""

    record: Record
    tracker: OffsetTracker


class ConsumerLoop(GroupMember):
    """Hands on each message by itself. Each key of a partition has a queue and a task of its own.

    Fetching pauses while ``high_water`` messages are unfinished. ``linger`` lets messages wait up to half a second to
    be fetched together, which costs less than waking up for every single one.
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
        tracker = self._trackers.get(record.topic_partition)
        if tracker is None:
            # Fetched before its partition was revoked: the new owner gets it as well.
            return
        tracker.start(record.offset)
        key, given = (record.topic_partition, record.key), _InWork(record, tracker)
        if key in self._in_work:
            self._in_work[key].append(given)
            return
        self._in_work[key] = deque((given,))
        self._tasks[key] = asyncio.create_task(self._work_through(key), name=f"consume {self.group}")

    async def _work_through(self, key: tuple[Partition, str]) -> None:
        """Works on the records of a key, one after the other."""
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
        # Even a partition that this member had before is read again from its committed offset.
        self._trackers, self._committed = {partition: OffsetTracker() for partition in partitions}, {}
        self.joined = True

    async def revoked(self, partitions: frozenset[Partition]) -> None:
        """Finish messages in work within 3 s; the next owner of the partitions reads the others again."""
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
            # What has not begun is read again.
            while len(self._in_work[key]) > 1:
                self._in_work[key].pop()
        await self._end_work([self._tasks[key] for key in keys])
