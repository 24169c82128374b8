"""Offsets of a dead-letter topic that were replayed, kept as a consumer group's committed offset and its metadata."""

from dataclasses import dataclass
from typing import Final

# The broker's default limit of an offset's metadata.
_MAX_METADATA_LENGTH: Final = 4096


class MetadataTooLong(Exception):
    """Too many messages were skipped; each gap takes room in the metadata of the committed offset."""


@dataclass(frozen=True)
class ReplayOffsets:
    """All offsets before ``position`` were replayed, and those in ``beyond`` out of order."""

    position: int = 0
    beyond: frozenset[int] = frozenset()

    def __contains__(self, offset: int) -> bool:
        return offset < self.position or offset in self.beyond

    def with_offset(self, offset: int, first: int) -> "ReplayOffsets":
        """Adds one offset; ``first`` is the oldest offset that the topic still keeps."""
        done = {*self.beyond, offset}
        position = max(self.position, first)
        while position in done:
            position += 1
        return ReplayOffsets(position, frozenset(offset for offset in done if offset > position))

    def count(self, first: int, end: int) -> int:
        """Counts the replayed offsets from ``first`` to before ``end``."""
        before = max(0, min(self.position, end) - first)
        return before + sum(1 for offset in self.beyond if max(first, self.position) <= offset < end)

    def metadata(self) -> str:
        """Renders ``beyond`` as ranges, e.g. ``7,9-12``. Raises ``MetadataTooLong``."""
        ranges: list[list[int]] = []
        for offset in sorted(self.beyond):
            if ranges and offset == ranges[-1][1] + 1:
                ranges[-1][1] = offset
            else:
                ranges.append([offset, offset])
        text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
        if len(text) > _MAX_METADATA_LENGTH:
            raise MetadataTooLong
        return text

    @classmethod
    def read(cls, position: int, metadata: str) -> "ReplayOffsets":
        """Parses a committed offset and its metadata; an offset of -1 means that nothing was committed yet."""
        beyond: set[int] = set()
        for part in filter(None, metadata.split(",")):
            first, _, last = part.partition("-")
            beyond.update(range(int(first), int(last or first) + 1))
        return cls(max(position, 0), frozenset(beyond))
