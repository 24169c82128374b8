"""Slots of a worker for running turns, shared between companies."""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
_BESIDE: Final = 8


class WorkerSlots:
    """The slots of a worker at one moment, ``running`` of them taken by company.

    A company holds at most ``capacity``. There are an eighth more in all, and one at least, so that a company that uses
    all of its share cannot block another.
    """

    def __init__(self, capacity: int, running: Mapping[str, int] | None = None) -> None:
        self._each = capacity
        self._running = Counter(running or {})
        self._free = capacity + max(capacity // _BESIDE, 1) - self._running.total() if capacity else 0

    def take(self, company_id: str) -> bool:
        """Takes one more slot for the company, if there is one."""
        if self._free <= 0 or self._running[company_id] >= self._each:
            return False
        self._free -= 1
        self._running[company_id] += 1
        return True

    def in_turn(self, waiting: Sequence[tuple[str, T]]) -> list[T]:
        """Gives slots to ``waiting`` ones, by company: always to the next of the company that runs fewest."""
        queues: dict[str, list[T]] = {}
        for company_id, each in waiting:
            queues.setdefault(company_id, []).append(each)
        # Of companies that run as many, the one that has waited longest comes first.
        order = [(self._running[company_id], number, company_id) for number, company_id in enumerate(queues)]
        heapq.heapify(order)
        served: Counter[str] = Counter()
        chosen: list[T] = []
        while order:
            _, number, company_id = heapq.heappop(order)
            if not self.take(company_id):
                continue
            chosen.append(queues[company_id][served[company_id]])
            served[company_id] += 1
            if served[company_id] < len(queues[company_id]):
                heapq.heappush(order, (self._running[company_id], number, company_id))
        return chosen
