"""Semaphores and queues that are shared fairly among companies."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


class QueueFull(Exception):
    """The company already has the maximum number of waiting calls, and holds ``held`` permits."""

    def __init__(self, waiting: int, held: int) -> None:
        super().__init__(f"the queue already contains the maximum number of calls: {waiting}")
        self.waiting = waiting
        self.held = held


class FairSemaphore:
    """A semaphore that shares ``permits`` fairly among companies. A company can hold up to ``each`` of them.

    Up to ``waiting`` more of its calls can wait, or any number if ``waiting`` is None. Waiting companies are served
    round-robin. While no other company is waiting, a company can hold more than ``each`` permits if ``spare`` permits
    remain free. If ``spare`` is None, it can't.
    """

    def __init__(self, permits: int, *, waiting: int | None = None, each: int = 1, spare: int | None = None) -> None:
        self._free = permits
        self._waiting = waiting
        self._each = each
        self._spare = permits if spare is None else spare
        self._held: Counter[str] = Counter()
        # Insertion order is the order of service. A served company moves to the end.
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def waiting(self) -> int:
        """The number of calls that are waiting for a permit."""
        return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def acquire(self, company_id: str) -> AsyncIterator[None]:
        """Waits for a permit and holds it until the context ends. Raises QueueFull if the company's queue is full."""
        await self._acquire(company_id)
        try:
            yield
        finally:
            self._release(company_id)

    async def _acquire(self, company_id: str) -> None:
        if company_id not in self._queues and self._may_have_one(company_id, alone=not self._queues):
            self._grant(company_id)
            return
        ahead = len(self._queues.get(company_id, ()))
        if self._waiting is not None and ahead >= self._waiting:
            raise QueueFull(ahead, self._held[company_id])
        granted = asyncio.get_running_loop().create_future()
        self._queues.setdefault(company_id, deque()).append(granted)
        try:
            # Unlike a plain await, this doesn't cancel the future together with the call.
            await asyncio.wait([granted])
        except asyncio.CancelledError:
            if granted.done():
                # The permit was granted at the same moment and would be lost.
                self._release(company_id)
            else:
                self._leave_queue(company_id, granted)
            raise

    def _may_have_one(self, company_id: str, *, alone: bool) -> bool:
        if self._held[company_id] < self._each:
            return self._free > 0
        return alone and self._free > self._spare

    def _grant(self, company_id: str) -> None:
        self._free -= 1
        self._held[company_id] += 1

    def _release(self, company_id: str) -> None:
        self._free += 1
        self._held[company_id] -= 1
        if not self._held[company_id]:
            del self._held[company_id]
        for waiting_id, queue in list(self._queues.items()):
            if self._may_have_one(waiting_id, alone=len(self._queues) == 1):
                granted = queue.popleft()
                del self._queues[waiting_id]
                if queue:
                    self._queues[waiting_id] = queue
                self._grant(waiting_id)
                granted.set_result(None)

    def _leave_queue(self, company_id: str, granted: asyncio.Future[None]) -> None:
        queue = self._queues[company_id]
        queue.remove(granted)
        if not queue:
            del self._queues[company_id]


class FairQueue(Generic[T]):
    """A queue in which companies take turns. Within a company, the order is preserved."""

    def __init__(self) -> None:
        # Insertion order is the order of service. A served company moves to the end.
        self._queues: dict[str, deque[T]] = {}
        self._items = 0

    def __len__(self) -> int:
        return self._items

    def put(self, company_id: str, item: T) -> None:
        self._queues.setdefault(company_id, deque()).append(item)
        self._items += 1

    def take(self, most: int) -> list[T]:
        """Removes and returns up to ``most`` items."""
        taken: list[T] = []
        while self._queues and len(taken) < most:
            company_id, queue = next(iter(self._queues.items()))
            taken.append(queue.popleft())
            del self._queues[company_id]
            if queue:
                self._queues[company_id] = queue
        self._items -= len(taken)
        return taken


@dataclass(frozen=True, slots=True)
class Capacity:
    """The capacity for claiming jobs: ``free`` in total, and ``each`` per company, including its jobs in ``busy``."""

    free: int
    each: int
    busy: Mapping[str, int] = field(default_factory=dict)

    def parameters(self) -> dict[str, object]:
        """Returns the parameters for an SQL statement that claims jobs."""
        companies, jobs = list(self.busy), list(self.busy.values())
        return {"free": self.free, "each": self.each, "companies": companies, "jobs": jobs}
