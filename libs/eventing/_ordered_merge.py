"""Merges partitions of several topics by the time of publishing."""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import merge
from operator import attrgetter
from typing import Final, Generic, TypeVar

from libs.eventing.bus import Partition

T = TypeVar("T")
# Half of the second that the order is promised for: the other half is for clocks and the way of a fetch's answer.
_SETTLED_SECONDS: Final = 0.5
_PUBLISHED: Final = attrgetter("published")


@dataclass(slots=True)
class Waiting(Generic[T]):
    """A record that has not been taken yet; ``value`` stays with it.

    ``published`` by the clock of its producer, ``fetched`` by that of this process, both in seconds. Neither it nor
    anything after it in the partitions of its number is taken before it is ``ready``.
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
    waiting: deque[Waiting[T]] = field(default_factory=deque)
    size: int = 0

    def empty(self) -> Iterable[Waiting[T]]:
        waiting, self.waiting, self.size = self.waiting, deque(), 0
        return waiting


class OrderedMerge(Generic[T]):
    """Merges the partitions of each number by the time of publishing, each partition in its order.

    All topics have equally many partitions, and a key has the same partition number in each. A record waits while
    another partition of its number could hold an earlier one. The wait ends when that partition shows its next record,
    or was seen to be empty at most half a second before the waiting record was fetched. So a record that was published
    a second before another one always precedes it.
    """

    def __init__(self) -> None:
        self._queues: dict[int, dict[Partition, _Queue[T]]] = {}
        self._first = 0

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Begins anew with these partitions."""
        self._queues = {}
        for partition in partitions:
            self._queues.setdefault(partition.number, {})[partition] = _Queue()

    @property
    def waiting(self) -> int:
        return sum(len(queue.waiting) for queues in self._queues.values() for queue in queues.values())

    def first_offset(self, partition: Partition, otherwise: int) -> int:
        """The offset of the partition's first record that waits."""
        queue = self._queues.get(partition.number, {}).get(partition)
        return queue.waiting[0].offset if queue is not None and queue.waiting else otherwise

    def wanted(self, most: int, most_bytes: int) -> frozenset[Partition]:
        """The partitions of which fewer records and bytes wait."""
        return frozenset(
            partition
            for queues in self._queues.values()
            for partition, queue in queues.items()
            if len(queue.waiting) < most and queue.size < most_bytes
        )

    def add(self, record: Waiting[T]) -> None:
        queue = self._queues[record.partition.number][record.partition]
        queue.waiting.append(record)
        queue.size += record.size

    def take(self, drained: Mapping[Partition, float], most: int, most_bytes: int) -> list[Waiting[T]]:
        """Takes records whose turn it is, in an order in which they may be handled.

        ``drained``: when each partition was last found to have no record beyond the added ones.
        """
        taken: list[Waiting[T]] = []
        # Another number first each time: a backlog in one must not keep the others waiting.
        self._first += 1
        order = deque(self._queues.values())
        order.rotate(self._first)
        for queues in order:
            count, size = sum(len(queue.waiting) for queue in queues.values()), sum(q.size for q in queues.values())
            if len(taken) + count <= most and size <= most_bytes and _settled(queues, drained):
                # The usual case: there is nothing else that could come before or between.
                taken += merge(*(queue.empty() for queue in queues.values()), key=_PUBLISHED)
                most_bytes -= size
                continue
            while len(taken) < most and most_bytes > 0 and (queue := _next(queues, drained)) is not None:
                record = queue.waiting.popleft()
                queue.size -= record.size
                most_bytes -= record.size
                taken.append(record)
        return taken


def _settled(queues: Mapping[Partition, _Queue[T]], drained: Mapping[Partition, float]) -> bool:
    """Whether all partitions were read to their ends since shortly before the last record that waits was fetched."""
    newest = max((queue.waiting[-1].fetched for queue in queues.values() if queue.waiting), default=math.inf)
    return all(
        drained.get(partition, -math.inf) >= newest - _SETTLED_SECONDS
        and all(waiting.ready for waiting in queue.waiting)
        for partition, queue in queues.items()
    )


def _next(queues: Mapping[Partition, _Queue[T]], drained: Mapping[Partition, float]) -> _Queue[T] | None:
    """The queue whose first record comes next in the partitions of its number, when that may be taken."""
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
