"""Consumes topics in batches ordered by publication time, and stores the offsets together with the data."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import structlog

from libs.contracts.messages import PoisonMessage
from libs.eventing._consumer import POLL_RECORDS, POLL_SECONDS, Attempts, GivenUp, GroupMember, is_outage
from libs.eventing._ordered_merge import BufferedRecord, OrderedMerge
from libs.eventing.bus import Bus, Consumer, OffsetMove, Partition, Record, StaleOffset
from libs.eventing.dead_letters import DeadLetters
from libs.retry import RetryPolicy

T = TypeVar("T")
_log = structlog.get_logger("eventing.batches")
# The poll timeout while this member's partitions are unknown.
_UNKNOWN_SECONDS: Final = 0.1
# The poll timeout while a record waits for other partitions with the same number.
_HELD_SECONDS: Final = 0.02
# Fetching and storing take about as long for one record as for twenty.
_PACE_SECONDS: Final = 0.05
_BATCH_RECORDS: Final = 500
_BATCH_BYTES: Final = 8 * 1024 * 1024
_WAITING_RECORDS: Final = 1000
_WAITING_BYTES: Final = 2 * 1024 * 1024
# Memory reserved for a record with a payload to fetch. Only payloads above half of this are fetched.
_FETCHED_BYTES: Final = 1024 * 1024
_FETCHES: Final = 4
# The broker removes a member that doesn't poll for two minutes.
_STILL_HERE_SECONDS: Final = 20.0
_STALE_SECONDS: Final = 0.5
# If a batch fails for a minute, its records are stored separately. A record that fails for a minute is dead-lettered.
_RETRIES: Final = RetryPolicy(first=0.1, longest=10.0, give_up_after=60.0)
# The service with the rest of a record may be restarting.
_FETCH_RETRIES: Final = RetryPolicy(first=0.2, longest=10.0, give_up_after=15 * 60.0)


class BatchHandler(Protocol[T]):
    """Stores the content of records. Any method can be called again for records that weren't stored."""

    async def offsets(self, topics: Sequence[str]) -> Mapping[Partition, int]:
        """Returns the next offset to read, for each partition with stored records."""

    def read(self, record: Record) -> T | None:
        """Decodes the record, or returns None if it contains nothing to store. Raises ``PoisonMessage``."""

    def is_whole(self, item: T) -> bool:
        """Returns whether the item is complete. If it isn't, ``fetch`` is called."""

    async def fetch(self, item: T) -> T:
        """Returns the complete item. Raises ``PoisonMessage``. All other errors are retried for 15 minutes."""

    async def store(self, items: Sequence[T], moves: Mapping[Partition, OffsetMove]) -> None:
        """Stores the items and the new offsets in one transaction.

        Raises ``StaleOffset`` if a partition's stored offset differs from the move's ``before``, and ``PoisonMessage``
        if at least one of the items can never be stored.
        """


@dataclass(slots=True)
class _Content(Generic[T]):
    """The item to store, or the ``failure`` with which the record is dead-lettered."""

    record: Record
    item: T | None = None
    failure: GivenUp | None = None


_Batch = Sequence[BufferedRecord[_Content[T]]]


class BatchConsumer(GroupMember, Generic[T]):
    """A consumer that passes batches of records to its handler, in the order of publication.

    Reading starts at the offsets that the handler has stored. Offsets are committed only so that lag can be measured.
    """

    def __init__(
        self,
        bus: Bus,
        handler: BatchHandler[T],
        dead_letters: DeadLetters,
        *,
        group: str,
        topics: Sequence[str],
        retries: RetryPolicy = _RETRIES,
        pace: float = _PACE_SECONDS,
    ) -> None:
        super().__init__(bus, dead_letters, group=group, topics=topics, retries=retries)
        self._handler = handler
        self._pace = pace
        self._next_poll_at = 0.0
        self._fetch_attempts = Attempts(group, _FETCH_RETRIES)
        self._fetches = asyncio.Semaphore(_FETCHES)
        self._fetching: set[asyncio.Task[None]] = set()
        self._merge = OrderedMerge[_Content[T]]()
        self._has_assignment = False
        self._assignments = 0
        self._partitions: frozenset[Partition] = frozenset()
        self._stored: dict[Partition, int] = {}
        self._storing: asyncio.Task[None] | None = None

    async def assigned(self, partitions: frozenset[Partition]) -> None:
        _log.info("consumer.assigned", group=self.group, partitions=len(partitions))
        # `_begin` looks up the offsets later, so that the group doesn't wait for an unreachable database.
        self._has_assignment = True
        self._assignments += 1

    async def revoked(self, partitions: frozenset[Partition]) -> None:
        """Waits up to 3 s for the current batch."""
        _log.info("consumer.revoked", group=self.group, partitions=len(partitions))
        await self._let_go()

    async def _advance(self, consumer: Consumer) -> None:
        if self._has_assignment and not self.joined:
            await self._begin(consumer)
        await self._fill(consumer)
        await self._flush(consumer)

    async def _begin(self, consumer: Consumer) -> None:
        """Starts reading this member's partitions at their stored offsets."""
        assignment = self._assignments
        try:
            stored = dict(await self._handler.offsets(self._topics))
        except Exception as problem:
            if not is_outage(problem):
                raise
            _log.warning("consumer.offsets_unknown", group=self.group, problem=repr(problem))
            return
        partitions = await consumer.seek(stored)
        if self._has_assignment and assignment == self._assignments:
            self._stored, self._committed, self._partitions = stored, {}, partitions
            self._merge.assign(partitions)
            self.joined = True

    async def _fill(self, consumer: Consumer) -> None:
        """Polls for records and buffers them. Limits the rate of polls under load."""
        if not self.joined:
            self._add(await consumer.poll(_UNKNOWN_SECONDS, 1, frozenset()))
            return
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._next_poll_at - loop.time(), 0.0))
        seconds = _HELD_SECONDS if self._merge.waiting else POLL_SECONDS
        records = await consumer.poll(seconds, POLL_RECORDS, self._merge.wanted(_WAITING_RECORDS, _WAITING_BYTES))
        if 0 < len(records) < POLL_RECORDS:
            self._next_poll_at = loop.time() + self._pace
        self._add(records)

    def _add(self, records: Sequence[Record]) -> None:
        for record in records:
            # All other records were fetched before their partition was revoked or before the offsets were known.
            if self.joined and Partition(record.topic, record.partition) in self._partitions:
                self._merge.add(self._read(record))

    def _read(self, record: Record) -> BufferedRecord[_Content[T]]:
        content: _Content[T] = _Content(record)
        waiting = BufferedRecord(
            Partition(record.topic, record.partition),
            record.offset,
            record.published,
            record.fetched,
            len(record.value),
            content,
        )
        try:
            item = content.item = self._handler.read(record)
        except PoisonMessage as problem:
            content.failure = GivenUp(problem, 1)
            return waiting
        if item is not None and not self._handler.is_whole(item):
            waiting.ready, waiting.size = False, _FETCHED_BYTES
            task = asyncio.create_task(self._fetch(waiting, item), name=f"fetch {self.group}")
            self._fetching.add(task)
            task.add_done_callback(self._fetching.discard)
        return waiting

    async def _fetch(self, waiting: BufferedRecord[_Content[T]], item: T) -> None:
        """Fetches the rest of an item. Until it arrives, partitions with the record's partition number wait."""
        content = waiting.value
        async with self._fetches:
            try:
                content.item = await self._fetch_attempts.run(lambda: self._handler.fetch(item), content.record)
            except GivenUp as failure:
                content.item, content.failure = None, failure
        waiting.ready = True

    async def _flush(self, consumer: Consumer) -> None:
        """Stores the records that are ready."""
        batch = self._merge.take(await consumer.drained(), _BATCH_RECORDS, _BATCH_BYTES) if self.joined else []
        if not batch:
            return
        storing = self._storing = asyncio.create_task(self._store(batch), name=f"store {self.group}")
        try:
            while not (await asyncio.wait({storing}, timeout=_STILL_HERE_SECONDS))[0]:
                self._add(await consumer.poll(0.0, 1, frozenset()))
        except BaseException:
            storing.cancel()
            raise
        finally:
            self._storing = None
        if storing.cancelled():
            return
        try:
            storing.result()
        except StaleOffset:
            _log.warning("consumer.stale_offset", group=self.group)
            self._forget()
            await asyncio.sleep(_STALE_SECONDS)

    async def _store(self, batch: _Batch[T]) -> None:
        for waiting in batch:
            if waiting.value.failure is not None:
                await self._attempts.dead_letter(self._dead_letters, waiting.value.record, waiting.value.failure)
        await self._store_items(batch)

    async def _store_items(self, batch: _Batch[T]) -> None:
        """Stores a batch. If that fails, stores the items separately, so that only invalid items are dead-lettered."""
        items = [waiting.value.item for waiting in batch if waiting.value.item is not None]
        after = {waiting.partition: waiting.offset + 1 for waiting in batch}
        moves = {partition: OffsetMove(self._stored.get(partition), offset) for partition, offset in after.items()}
        try:
            await self._attempts.run(lambda: self._handler.store(items, moves), batch[0].value.record)
        except GivenUp as failure:
            if len(batch) > 1:
                for waiting in batch:
                    await self._store_items([waiting])
                return
            [waiting] = batch
            if waiting.value.item is None:
                # There's only an offset to move, so the database is at fault.
                raise
            await self._attempts.dead_letter(self._dead_letters, waiting.value.record, failure)
            waiting.value.item = None
            await self._store_items(batch)
            return
        self._stored |= after

    def _first_unfinished(self, partition: Partition, position: int) -> int:
        return self._merge.first_offset(partition, position)

    def _finished(self) -> Mapping[Partition, int]:
        return {partition: self._stored[partition] for partition in self._partitions & self._stored.keys()}

    async def _let_go(self) -> None:
        self._has_assignment = False
        await self._end_work([] if self._storing is None else [self._storing])
        self._forget()

    def _forget(self) -> None:
        """Drops unstored records. The partitions' new members read these records again."""
        self.joined = False
        self._partitions = frozenset()
        self._merge.assign(())
        for task in self._fetching:
            task.cancel()
