"""Places for expensive work, shared out fairly among companies."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.runtime.domain.tools import ToolFailed


class FairSemaphore:
    """``places`` in all; a company has one of them at a time, and at most ``waiting`` calls in line for it.

    Who waits is served company by company, so that a company's long line costs the others one turn each at most.
    """

    def __init__(self, places: int, waiting: int) -> None:
        self._free = places
        self._waiting = waiting
        self._busy: Counter[str] = Counter()
        # Insertion order is the order of service: a company that was served goes to the end.
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def of(self, company_id: str) -> AsyncIterator[None]:
        """Raises ToolFailed at once when the company's line is full."""
        await self._enter(company_id)
        try:
            yield
        finally:
            self._leave(company_id)

    async def _enter(self, company_id: str) -> None:
        if self._free and not self._busy[company_id]:
            self._take(company_id)
            return
        line = self._lines.setdefault(company_id, deque())
        if len(line) >= self._waiting:
            raise ToolFailed(f"{len(line)} of your company's queries are waiting already: call again in a moment")
        admitted = asyncio.get_running_loop().create_future()
        line.append(admitted)
        try:
            # Unlike a plain await, this leaves the future alone when the call is cancelled.
            await asyncio.wait([admitted])
        except asyncio.CancelledError:
            if admitted.done():
                # The place was given in the same moment; nobody else would give it back.
                self._leave(company_id)
            else:
                self._withdraw(company_id, admitted)
            raise

    def _take(self, company_id: str) -> None:
        self._free -= 1
        self._busy[company_id] += 1

    def _leave(self, company_id: str) -> None:
        self._free += 1
        self._busy[company_id] -= 1
        if not self._busy[company_id]:
            del self._busy[company_id]
        self._admit()

    def _admit(self) -> None:
        for company_id, line in list(self._lines.items()):
            if self._free and company_id not in self._busy:
                admitted = line.popleft()
                del self._lines[company_id]
                if line:
                    self._lines[company_id] = line
                self._take(company_id)
                admitted.set_result(None)

    def _withdraw(self, company_id: str, admitted: asyncio.Future[None]) -> None:
        line = self._lines[company_id]
        line.remove(admitted)
        if not line:
            del self._lines[company_id]
