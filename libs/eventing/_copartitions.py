"""Copartitions: partitions of several topics that hold the same keys and are read in the order of publishing."""

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import merge
from operator import attrgetter
from typing import Final, Generic, TypeVar

from libs.eventing._bus import Partition

T = TypeVar("T")
# Half of the second that the order is promised for: the other half is for clocks and the way of a fetch's answer.
_SETTLED_SECONDS: Final = 0.5
_PUBLISHED: Final = attrgetter("published")


def copartitions_of(partition_counts: Iterable[int]) -> int:
    """The number of copartitions of topics with these numbers of partitions.

    A key is in the same partition of each topic, modulo the number of copartitions, which divides the numbers of
    partitions: the partition of a key is its hash modulo one of these.
    """
    return math.gcd(*partition_counts)


def shared_copartitions(
    members: Collection[str], partitions: Collection[Partition], copartitions: int
) -> dict[str, list[Partition]]:
    """The partitions of each member of a group: whole copartitions, as evenly as they go."""
    order = sorted(members)
    shares: dict[str, list[Partition]] = {member: [] for member in order}
    for partition in sorted(partitions):
        shares[order[partition.number % copartitions % len(order)]].append(partition)
    return shares


@dataclass(slots=True)
class Waiting(Generic[T]):
    """A record of a copartition that has not been taken yet; ``value`` stays with it.

    ``published`` by the clock of its producer, ``fetched`` by that of this process, both in seconds. It is not taken,
    nor anything after it in its copartition, before it is ``ready``.
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


class CopartitionMerge(Generic[T]):
    """Merges the partitions of each copartition by the time of publishing, each partition in its order.

    A record waits while another partition of its copartition could hold one that was published earlier: until that
    one shows its next record, or was found to have no more half a second before the waiting record was fetched, or
    later. So what was published a second before something else comes before it.
    """

    def __init__(self) -> None:
        self._copartitions: dict[int, dict[Partition, _Queue[T]]] = {}
        self._number = 1
        self._first = 0

    def assign(self, partitions: Iterable[Partition], copartitions: int) -> None:
        """Begins anew with these partitions."""
        self._copartitions, self._number = {}, copartitions
        for partition in partitions:
            self._copartitions.setdefault(partition.number % copartitions, {})[partition] = _Queue()

    @property
    def waiting(self) -> int:
        return sum(len(queue.waiting) for copartition in self._copartitions.values() for queue in copartition.values())

    def first_offset(self, partition: Partition, otherwise: int) -> int:
        """The offset of the partition's first record that waits."""
        queue = self._copartitions.get(partition.number % self._number, {}).get(partition)
        return queue.waiting[0].offset if queue is not None and queue.waiting else otherwise

    def wanted(self, most: int, most_bytes: int) -> frozenset[Partition]:
        """The partitions of which fewer records and bytes wait."""
        return frozenset(
            partition
            for copartition in self._copartitions.values()
            for partition, queue in copartition.items()
            if len(queue.waiting) < most and queue.size < most_bytes
        )

    def add(self, record: Waiting[T]) -> None:
        queue = self._copartitions[record.partition.number % self._number][record.partition]
        queue.waiting.append(record)
        queue.size += record.size

    def take(self, drained: Mapping[Partition, float], most: int, most_bytes: int) -> list[Waiting[T]]:
        """Takes records whose turn it is, in an order in which they may be handled.

        ``drained``: when each partition was last found to have no record beyond the added ones.
        """
        taken: list[Waiting[T]] = []
        # Another copartition first each time: a backlog in one must not keep the others waiting.
        self._first += 1
        order = deque(self._copartitions.values())
        order.rotate(self._first)
        for copartition in order:
            queues = copartition.values()
            count, size = sum(len(queue.waiting) for queue in queues), sum(queue.size for queue in queues)
            if len(taken) + count <= most and size <= most_bytes and _settled(copartition, drained):
                # The usual case: there is nothing else that could come before or between.
                taken += merge(*(queue.empty() for queue in queues), key=_PUBLISHED)
                most_bytes -= size
                continue
            while len(taken) < most and most_bytes > 0 and (queue := _next(copartition, drained)) is not None:
                record = queue.waiting.popleft()
                queue.size -= record.size
                most_bytes -= record.size
                taken.append(record)
        return taken


def _settled(copartition: Mapping[Partition, _Queue[T]], drained: Mapping[Partition, float]) -> bool:
    """Whether all partitions were read to their ends since shortly before the last record that waits was fetched."""
    newest = max((queue.waiting[-1].fetched for queue in copartition.values() if queue.waiting), default=math.inf)
    return all(
        drained.get(partition, -math.inf) >= newest - _SETTLED_SECONDS
        and all(waiting.ready for waiting in queue.waiting)
        for partition, queue in copartition.items()
    )


def _next(copartition: Mapping[Partition, _Queue[T]], drained: Mapping[Partition, float]) -> _Queue[T] | None:
    """The queue whose first record comes next in its copartition, when that may be taken."""
    queues = [queue for queue in copartition.values() if queue.waiting]
    if not queues:
        return None
    first = min(queues, key=lambda queue: queue.waiting[0].published)
    record = first.waiting[0]
    settled = record.fetched - _SETTLED_SECONDS
    empty = (partition for partition, queue in copartition.items() if not queue.waiting)
    if not record.ready or any(drained.get(partition, -math.inf) < settled for partition in empty):
        return None
    return first
