"""Merges the partitions of several topics by publication time."""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from libs.eventing.bus import Partition

T = TypeVar("T")
# Half of the one-second guarantee. The rest covers clock skew and delayed fetch responses.
_SETTLED_SECONDS: Final = 0.5


@dataclass(slots=True)
class BufferedRecord(Generic[T]):
    """A buffered record and its decoded ``value``.

    ``published`` is in seconds by the producer's clock, ``fetched`` by the local clock. A record that isn't ``ready``
    delays all later records in partitions with the same number.
    """

    partition: Partition
    offset: int
    published: float
    fetched: float
    size: int
    value: T
    ready: bool = True


@dataclass(slots=True)
class _Queue(Generic[T]):
    waiting: deque[BufferedRecord[T]] = field(default_factory=deque)
    size: int = 0


class OrderedMerge(Generic[T]):
    """Merges the partitions with the same number by publication time, and preserves the order within each partition.

    A record waits for each other partition with the same number, until that partition delivers a record or is known to
    be empty. The partition must have been empty at most half a second before the waiting record was fetched. Therefore,
    a record always precedes records that were published at least a second later.
    """

    def __init__(self) -> None:
        self._queues: dict[int, dict[Partition, _Queue[T]]] = {}
        self._first = 0

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Discards all buffered records and starts over with these partitions."""
        self._queues = {}
        for partition in partitions:
            self._queues.setdefault(partition.number, {})[partition] = _Queue()

    @property
    def waiting(self) -> int:
        return sum(len(queue.waiting) for queues in self._queues.values() for queue in queues.values())

    def first_offset(self, partition: Partition, otherwise: int) -> int:
        """Returns the offset of the partition's first buffered record, or ``otherwise`` if no record is buffered."""
        queue = self._queues.get(partition.number, {}).get(partition)
        return queue.waiting[0].offset if queue is not None and queue.waiting else otherwise

    def wanted(self, most: int, most_bytes: int) -> frozenset[Partition]:
        """Returns the partitions whose buffered records are below both limits."""
        return frozenset(
            partition
            for queues in self._queues.values()
            for partition, queue in queues.items()
            if len(queue.waiting) < most and queue.size < most_bytes
        )

    def add(self, record: BufferedRecord[T]) -> None:
        queue = self._queues[record.partition.number][record.partition]
        queue.waiting.append(record)
        queue.size += record.size

    def take(self, drained: Mapping[Partition, float], most: int, most_bytes: int) -> list[BufferedRecord[T]]:
        """Removes and returns the records that can be handled now, in order.

        ``drained`` maps a partition to the time when it was last known to contain no further records.
        """
        taken: list[BufferedRecord[T]] = []
        # Each call starts at the next partition number, so that one number's backlog doesn't starve the rest.
        self._first += 1
        order = deque(self._queues.values())
        order.rotate(self._first)
        for queues in order:
            while len(taken) < most and most_bytes > 0 and (queue := _next(queues, drained)) is not None:
                record = queue.waiting.popleft()
                queue.size -= record.size
                most_bytes -= record.size
                taken.append(record)
        return taken


def _next(queues: Mapping[Partition, _Queue[T]], drained: Mapping[Partition, float]) -> _Queue[T] | None:
    """Returns the queue with the earliest record, or None if that record must wait."""
    waiting = [queue for queue in queues.values() if queue.waiting]
    if not waiting:
        return None
    first = min(waiting, key=lambda queue: queue.waiting[0].published)
    record = first.waiting[0]
    settled = record.fetched - _SETTLED_SECONDS
    empty = (partition for partition, queue in queues.items() if not queue.waiting)
    if not record.ready or any(drained.get(partition, -math.inf) < settled for partition in empty):
        return None
    return first
