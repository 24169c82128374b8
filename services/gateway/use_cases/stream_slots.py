"""Limits how many streams each company has open, across all gateways."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

import structlog

from libs.contracts.errors import StoreUnavailable, rate_exceeded
from libs.quotas import CompanyLimits
from services.gateway.domain.limits import STREAMS, SharedLimits
from services.gateway.use_cases.rates import block_of

_log = structlog.get_logger("gateway.limits")
RENEW_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 2
_REFUSED_SECONDS: Final = 1.0


class StreamSlots:
    """Limits each company's open streams. Each gateway reserves slots in blocks, and renews them every 10 s.

    While the database is unreachable, every stream gets a slot.
    """

    def __init__(self, shared: SharedLimits, limits: CompanyLimits) -> None:
        self._shared = shared
        self._limits = limits
        self._open: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        # A lock exists as long as a task holds it or waits for it.
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._full_until: dict[str, float] = {}

    @asynccontextmanager
    async def taken(self, company_id: str) -> AsyncIterator[None]:
        """Holds a slot for a stream. Raises ``RateLimited`` if the company has too many open streams."""
        limit = self._limits.of(company_id, STREAMS)
        if limit is not None and company_id:
            # Checks again after each wait, since other streams may have taken the slots.
            while self._open[company_id] >= self._held[company_id]:
                await self._more(company_id, limit)
        self._open[company_id] += 1
        try:
            yield
        finally:
            self._open[company_id] -= 1
            if not self._open[company_id]:
                del self._open[company_id]

    async def run(self) -> None:
        """Renews this gateway's slots, and frees unused slots except for a block per company. Runs until cancelled."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self.renew()
            except StoreUnavailable as problem:
                _log.warning("limits.not_renewed", problem=str(problem).strip())

    async def close(self) -> None:
        """Frees all slots, so that clients can reconnect to other gateways."""
        try:
            await self._shared.renew_slots(dict.fromkeys(self._held, 0))
        except StoreUnavailable as problem:
            _log.warning("limits.not_renewed", problem=str(problem).strip())

    async def renew(self) -> None:
        now = asyncio.get_running_loop().time()
        self._full_until = {company_id: until for company_id, until in self._full_until.items() if until > now}
        async with AsyncExitStack() as locks:
            # Without the locks, a block taken during the renewal wouldn't be renewed, and other gateways could take it.
            stated = list(self._held)
            for company_id in stated:
                await locks.enter_async_context(self._lock(company_id))
            for company_id in stated:
                limit = self._limits.of(company_id, STREAMS)
                spare = 0 if limit is None or not self._open[company_id] else block_of(limit)
                self._held[company_id] = min(self._held[company_id], self._open[company_id] + spare)
            # Counts of 0 are sent once, so that the slots are free immediately.
            await self._shared.renew_slots({company_id: self._held[company_id] for company_id in stated})
            self._held = +self._held

    def _lock(self, company_id: str) -> asyncio.Lock:
        return self._asking.setdefault(company_id, asyncio.Lock())

    async def _more(self, company_id: str, limit: int) -> None:
        """Reserves a block of slots, unless another task has done so. Raises ``RateLimited`` if no slot is free."""
        loop = asyncio.get_running_loop()
        async with self._lock(company_id):
            taken = self._open[company_id]
            if taken < self._held[company_id]:
                return
            if self._full_until.get(company_id, 0.0) > loop.time():
                raise rate_exceeded(STREAMS, limit, limit, _RETRY_SECONDS)
            try:
                slots = await self._shared.hold_slots(company_id, taken + block_of(limit), limit)
            except StoreUnavailable as problem:
                _log.warning("limits.not_shared", limit=STREAMS, problem=str(problem).strip())
                self._held[company_id] = self._open[company_id] + 1
                return
            self._held[company_id] = slots.held
            if slots.held <= self._open[company_id]:
                # Keeps a flood of rejected requests from becoming a flood of queries.
                self._full_until[company_id] = loop.time() + _REFUSED_SECONDS
                raise rate_exceeded(STREAMS, limit, slots.held + slots.others, _RETRY_SECONDS)
