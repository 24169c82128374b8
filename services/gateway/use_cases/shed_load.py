"""Spreads and refuses requests of the company that sends most, while this gateway is too busy for all."""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from libs.contracts.errors import ErrorDetail, RateLimited
from services.gateway.domain.load_shedding import TICK_SECONDS, LoadShedding

_log = structlog.get_logger("gateway.load")
_LOG_SECONDS: Final = 10.0
_LONGEST_HOLD: Final = 3
_MOST_HELD: Final = 1000
_BUSY: Final = "the service is busy, and no other company asks for as much at present: try again later"


class ShedLoad:
    """Applies the policy to the requests of one event loop."""

    def __init__(self, policy: LoadShedding, *, on_refused: Callable[[], None] = lambda: None) -> None:
        self._policy = policy
        self._on_refused = on_refused
        self._shared = asyncio.Event()
        self._held = 0
        self._logged: dict[str, float] = {}

    async def admit(self, company_id: str) -> None:
        """Counts a request, and lets it wait for its time, below a second.

        Raises ``RateLimited``, after up to three seconds: a caller that repeats at once comes less often so.
        """
        wait = self._policy.wait_of(company_id)
        if self._policy.is_shared:
            self._shared.set()
        if wait:
            self._on_refused()
            left = wait - await self._hold(wait)
            details = [ErrorDetail(loc=[], type="busy", message=_BUSY)]
            raise RateLimited(_BUSY, details=details, retry_after=max(left, 1))
        if pause := self._policy.pause_of(company_id):
            await asyncio.sleep(pause)

    async def _hold(self, wait: int) -> int:
        """Waits for some of the seconds, which it returns; for none while very many do."""
        if self._held >= _MOST_HELD:
            return 0
        held = min(wait, _LONGEST_HOLD)
        self._held += 1
        try:
            await asyncio.sleep(held)
        finally:
            self._held -= 1
        return held

    async def run(self) -> None:
        """Watches the event loop while several companies use it, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            if not self._policy.is_shared:
                self._shared.clear()
                await self._shared.wait()
            began = clock()
            await asyncio.sleep(TICK_SECONDS)
            self._policy.observe(clock() - began - TICK_SECONDS)
            self._log_bounds(clock())

    def _log_bounds(self, now: float) -> None:
        for company_id, per_second in self._policy.bounds.items():
            if self._logged.get(company_id, -_LOG_SECONDS) + _LOG_SECONDS <= now:
                self._logged[company_id] = now
                _log.warning("load.shed", company_id=company_id, requests_per_second=round(per_second))
        self._logged = {company_id: then for company_id, then in self._logged.items() if then + _LOG_SECONDS > now}
