"""Items that wait, taken in turn between companies."""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """In order within a company; a company's long queue costs the others one turn each."""

    def __init__(self) -> None:
        # Insertion order is the order of service: a company that was served goes to the end.
        self._queues: dict[str, deque[T]] = {}
        self._items = 0

    def __len__(self) -> int:
        return self._items

    def put(self, company_id: str, item: T) -> None:
        self._queues.setdefault(company_id, deque()).append(item)
        self._items += 1

    def take(self, most: int) -> list[T]:
        """Takes up to ``most`` items out."""
        taken: list[T] = []
        while self._queues and len(taken) < most:
            company_id, queue = next(iter(self._queues.items()))
            taken.append(queue.popleft())
            del self._queues[company_id]
            if queue:
                self._queues[company_id] = queue
        self._items -= len(taken)
        return taken
