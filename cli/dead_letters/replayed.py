"""Which letters of a dead-letter topic were replayed, as it is kept with the broker: an offset and a note beside it."""

from dataclasses import dataclass
from typing import Final

# The broker's default limit for the note.
_LONGEST_NOTE: Final = 4096


class NoteTooLong(Exception):
    """Too many letters were passed over, each leaving a gap to be noted."""


@dataclass(frozen=True)
class Replayed:
    """All letters before ``position``, and those of ``beyond`` although earlier ones are not."""

    position: int = 0
    beyond: frozenset[int] = frozenset()

    def __contains__(self, offset: int) -> bool:
        return offset < self.position or offset in self.beyond

    def with_letter(self, offset: int, first: int) -> "Replayed":
        """This and one more; ``first`` is the offset of the oldest letter that is still kept."""
        done = {*self.beyond, offset}
        position = max(self.position, first)
        while position in done:
            position += 1
        return Replayed(position, frozenset(letter for letter in done if letter > position))

    def count(self, first: int, end: int) -> int:
        """How many of the letters from ``first`` to before ``end`` were replayed."""
        before = max(0, min(self.position, end) - first)
        return before + sum(1 for offset in self.beyond if max(first, self.position) <= offset < end)

    def note(self) -> str:
        """``beyond`` as ranges, e.g. ``7,9-12``. Raises ``NoteTooLong``."""
        ranges: list[list[int]] = []
        for offset in sorted(self.beyond):
            if ranges and offset == ranges[-1][1] + 1:
                ranges[-1][1] = offset
            else:
                ranges.append([offset, offset])
        text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
        if len(text) > _LONGEST_NOTE:
            raise NoteTooLong
        return text

    @classmethod
    def read(cls, position: int, note: str) -> "Replayed":
        """What ``note`` wrote beside a position; -1 is the position where nothing was committed yet."""
        beyond: set[int] = set()
        for part in filter(None, note.split(",")):
            first, _, last = part.partition("-")
            beyond.update(range(int(first), int(last or first) + 1))
        return cls(max(position, 0), frozenset(beyond))
