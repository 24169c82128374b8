"""Tracks the finished messages of a partition and how far its offset may be committed."""

from collections import deque


class OffsetTracker:
    """Messages start in offset order and finish in any order; the position moves past a finished prefix only."""

    def __init__(self) -> None:
        self._started: deque[int] = deque()
        self._done: set[int] = set()
        self._position: int | None = None
        self._committed: int | None = None

    def start(self, offset: int) -> None:
        self._started.append(offset)

    def finish(self, offset: int) -> None:
        self._done.add(offset)
        while self._started and self._started[0] in self._done:
            first = self._started.popleft()
            self._done.discard(first)
            self._position = first + 1

    @property
    def first_unfinished(self) -> int | None:
        """The offset of the first unfinished message, if there is one."""
        return self._started[0] if self._started else None

    @property
    def unfinished(self) -> int:
        return len(self._started) - len(self._done)

    def position_to_commit(self) -> int | None:
        """The offset before which everything is finished, if it moved since the last commit."""
        return None if self._position == self._committed else self._position

    def committed(self, position: int) -> None:
        self._committed = position
