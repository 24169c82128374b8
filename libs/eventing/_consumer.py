"""A consumer loop: concurrent across keys, in order within one, offsets committed past what is done."""

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

import structlog

from libs.eventing import _metrics as metrics
from libs.eventing._bus import Bus, BusUnavailable, Consumer, Partition, Record
from libs.eventing._dead_letters import DeadLetters
from libs.eventing._errors import PoisonMessage
from libs.eventing._offsets import OffsetTracker
from libs.persistence import is_unreachable
from libs.retry import RetryPolicy

_log = structlog.get_logger("eventing.consumer")
_POLL_SECONDS: Final = 0.5
_POLL_RECORDS: Final = 500
_COMMIT_SECONDS: Final = 1.0
_REVOKE_SECONDS: Final = 3.0
_RECONNECT_SECONDS: Final = 1.0
# A message that has failed for a quarter of an hour is dead-lettered.
_RETRIES: Final = RetryPolicy(first=0.1, longest=10.0, give_up_after=15 * 60.0)


class Handler(Protocol):
    """What is done with the messages. Both may be called again for a message whose offset was not committed."""

    async def deliver(self, record: Record) -> None:
        """Done when it returns. ``PoisonMessage`` dead-letters; any other error is tried again."""

    async def give_up(self, record: Record, reason: str) -> None:
        """The message goes to the dead letters; tell whoever waits for its outcome."""


class ConsumerLoop:
    """One group member that runs until it is stopped.

    ``high_water`` messages in work pause the fetching, half of it resumes it. ``joined`` tells readiness: the
    group has given this member its, possibly empty, assignment. ``linger`` is for messages that nobody waits for:
    each may wait half a second, and waking up for every single one costs more than dealing with it.
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
        self.joined = False
        self.group = group
        self._bus = bus
        self._handler = handler
        self._dead_letters = dead_letters
        self._topics = topics
        self._high_water = high_water
        self._linger = linger
        self._retries = retries
        self._trackers: dict[Partition, OffsetTracker] = {}
        self._queues: dict[tuple[Partition, str], deque[Record]] = {}
        self._tasks: dict[tuple[Partition, str], asyncio.Task[None]] = {}
        self._consumer: Consumer | None = None
        self._stopping = asyncio.Event()
        self._committed_at = 0.0
        dead_letters.expect(topics)
        metrics.expect_retries(group)

    async def run(self) -> None:
        """Consume until ``stop``; an unreachable broker is waited for."""
        while not self._stopping.is_set():
            consumer = self._consumer = self._bus.consumer(self.group, self._topics, self, linger=self._linger)
            try:
                await consumer.start()
                await self._consume(consumer)
            except BusUnavailable as problem:
                _log.warning("consumer.unreachable", group=self.group, problem=str(problem))
                await asyncio.sleep(_RECONNECT_SECONDS)
            finally:
                self.joined = False
                await self._drain(frozenset(self._trackers))
                self._trackers.clear()
                await consumer.stop()

    async def stop(self) -> None:
        """Take nothing more; ``run`` returns when what is in work is done or handed back uncommitted."""
        self._stopping.set()

    async def measure(self) -> None:
        """Tell Prometheus how much is not done yet of what lies in this member's partitions.

        Raises ``BusUnavailable``.
        """
        consumer = self._consumer
        if consumer is None or not self.joined:
            return
        behind = dict.fromkeys(self._topics, 0)
        for place, (position, end) in (await consumer.positions()).items():
            tracker = self._trackers.get(place)
            first = tracker.first_unfinished if tracker is not None else None
            behind[place.topic] += max(end - (position if first is None else first), 0)
        for topic, messages in behind.items():
            metrics.set_lag(self.group, topic, messages)

    async def _consume(self, consumer: Consumer) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            consumer.pause(self._over_limit())
            for record in await consumer.poll(_POLL_SECONDS, _POLL_RECORDS):
                self._take(record)
            if loop.time() - self._committed_at >= _COMMIT_SECONDS:
                await self._commit(consumer)
                self._committed_at = loop.time()

    def _over_limit(self) -> bool:
        waiting = sum(tracker.unfinished for tracker in self._trackers.values())
        return waiting >= self._high_water

    def _take(self, record: Record) -> None:
        tracker = self._trackers.get(record.place)
        if tracker is None:
            # Fetched before its partition was revoked: the new owner gets it as well.
            return
        tracker.start(record.offset)
        key = (record.place, record.key)
        waiting = self._queues.get(key)
        if waiting is not None:
            waiting.append(record)
            return
        self._queues[key] = deque((record,))
        self._tasks[key] = asyncio.create_task(self._work_off(key), name=f"consume {self.group}")

    async def _work_off(self, key: tuple[Partition, str]) -> None:
        waiting = self._queues[key]
        # Kept by hand: after a rebalance the partition may have another tracker, which must not count these.
        tracker = self._trackers[key[0]]
        try:
            while waiting:
                await self._process(waiting[0])
                tracker.finish(waiting.popleft().offset)
        finally:
            self._queues.pop(key, None)
            self._tasks.pop(key, None)

    async def _process(self, record: Record) -> None:
        attempts = 1

        def log(problem: Exception, attempt: int) -> None:
            nonlocal attempts
            attempts, outage = attempt + 1, _is_outage(problem)
            metrics.retried(self.group, outage=outage)
            _log.warning(
                "message.retried",
                group=self.group,
                offset=record.offset,
                attempt=attempt,
                outage=outage,
                exc_info=None if outage else problem,
            )

        try:
            await self._retries.run(
                lambda: self._handler.deliver(record), when=_is_no_poison, outage=_is_outage, before_sleep=log
            )
            return
        except Exception as problem:
            reason = str(problem) if isinstance(problem, PoisonMessage) else repr(problem)
        await self._dead_letter(record, reason, attempts)

    async def _dead_letter(self, record: Record, reason: str, attempts: int) -> None:
        async def put() -> None:
            await self._handler.give_up(record, reason)
            await self._dead_letters.put(record, reason=reason, attempts=attempts)

        def log(problem: Exception, _attempt: int) -> None:
            _log.warning("message.not_dead_lettered", group=self.group, offset=record.offset, problem=repr(problem))

        # Without an end: a message whose offset moved on without a dead letter and an outcome would be lost.
        await replace(self._retries, give_up_after=math.inf).run(put, before_sleep=log)

    async def _commit(self, consumer: Consumer) -> None:
        moved = {
            place: position
            for place, tracker in self._trackers.items()
            if (position := tracker.position_to_commit()) is not None
        }
        if not moved:
            return
        try:
            await consumer.commit(moved)
        except BusUnavailable as problem:
            _log.warning("consumer.commit_failed", group=self.group, problem=str(problem))
            return
        for place, position in moved.items():
            if place in self._trackers:
                self._trackers[place].committed(position)

    async def assigned(self, partitions: frozenset[Partition]) -> None:
        # Even a partition that this member had before is read again from its committed offset.
        self._trackers = {place: OffsetTracker() for place in partitions}
        self.joined = True

    async def revoked(self, partitions: frozenset[Partition]) -> None:
        """Finish quickly what is in work there; the rest is read again by whoever gets the partitions."""
        await self._drain(partitions)
        for place in partitions:
            self._trackers.pop(place, None)

    async def _drain(self, partitions: frozenset[Partition]) -> None:
        keys = [key for key in self._tasks if key[0] in partitions]
        for key in keys:
            waiting = self._queues[key]
            # Only the first is in work; the others were not begun and are read again.
            while len(waiting) > 1:
                waiting.pop()
        tasks = [self._tasks[key] for key in keys]
        if tasks:
            _, unfinished = await asyncio.wait(tasks, timeout=_REVOKE_SECONDS)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
        # Now, while the partitions are still ours: whoever gets them begins after what was done here.
        if self._consumer is not None:
            await self._commit(self._consumer)


def _is_no_poison(problem: Exception) -> bool:
    return not isinstance(problem, PoisonMessage)


def _is_outage(problem: Exception) -> bool:
    """Outages do not count towards giving up. Held locks do: a deadlock may be of the message's own making."""
    return isinstance(problem, BusUnavailable) or is_unreachable(problem)
