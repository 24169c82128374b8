"""A store for batches of records, in memory: items and offsets in one step, with failures as a test says."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from libs.eventing.bus import OffsetMove, Partition, PoisonMessage, Record, StaleOffset


@dataclass
class BatchSink:
    """Keeps what members of a group store; ``stored`` in the order of storing, repeats included.

    ``poison`` values cannot be read, ``indigestible`` ones cannot be stored. Values in ``partial`` have to be fetched,
    which waits for the event. ``failures`` are raised by the next calls of ``store``, which wait for the ``gate``.
    """

    offsets_stored: dict[Partition, int] = field(default_factory=dict)
    stored: list[bytes] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    poison: set[bytes] = field(default_factory=set)
    indigestible: set[bytes] = field(default_factory=set)
    partial: dict[bytes, asyncio.Event] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)
    overtaken: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    async def offsets(self, topics: Sequence[str]) -> Mapping[Partition, int]:
        return {partition: at for partition, at in self.offsets_stored.items() if partition.topic in topics}

    def read(self, record: Record) -> bytes | None:
        if record.value in self.poison:
            raise PoisonMessage("cannot be read")
        return record.value or None

    def is_whole(self, item: bytes) -> bool:
        return item not in self.partial

    async def fetch(self, item: bytes) -> bytes:
        await self.partial[item].wait()
        return item

    async def store(self, items: Sequence[bytes], moves: Mapping[Partition, OffsetMove]) -> None:
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        if self.indigestible.intersection(items):
            raise PoisonMessage("cannot be stored")
        if any(self.offsets_stored.get(partition) != move.before for partition, move in moves.items()):
            self.overtaken += 1
            raise StaleOffset
        self.offsets_stored |= {partition: move.after for partition, move in moves.items()}
        self.stored += items
        self.batches.append(len(items))
