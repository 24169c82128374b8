"""Sheds load: an overloaded gateway delays or rejects requests from the busiest company."""

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from libs.contracts.errors import ErrorDetail, RateLimited

_log = structlog.get_logger("gateway.load")
TICK_SECONDS: Final = 0.1
LEAST_PER_SECOND: Final = 20.0
"""A company that sends fewer requests per second than this is never throttled."""
_FORGOTTEN_BELOW: Final = 0.02
# Lateness counts up to a maximum, so that a single stall caused by another program doesn't throttle anyone.
_LATE_SECONDS, _LATEST_SECONDS = 0.003, 0.02
_SHORT_SECONDS, _LONG_SECONDS = 0.5, 5.0
_LESS, _MORE = 0.8, 1.02
# A burst of 0.2 s worth of requests passes without delay. Another 0.8 s worth is delayed, and the rest rejected.
_BURST_SECONDS, _PAUSE_SECONDS = 0.2, 0.8
_LONGEST_RETRY, _LONGEST_HOLD, _MOST_HELD = 10, 3, 1000
_BUSY: Final = "The service is busy, and your company is sending the most requests. Try again later."


@dataclass(slots=True)
class _Sender:
    came: int = 0
    coming: float = 0.0
    """Requests received per second, averaged over five seconds."""
    passing: float = 0.0
    """Requests accepted per second, averaged over half a second."""
    allowed: float = math.inf
    credit: float = _BURST_SECONDS
    """Seconds of requests, at the rate of ``allowed``, that pass without delay. Delayed requests make it negative."""


class LoadShedding:
    """Throttles the busiest company while the event loop is late and other companies send requests.

    While the event loop is on time, bounds rise until they have no effect.
    """

    def __init__(self, *, on_refused: Callable[[], None] = lambda: None) -> None:
        self._on_refused = on_refused
        self._senders: dict[str, _Sender] = {}
        self._lateness = 0.0
        self._holding = asyncio.Semaphore(_MOST_HELD)

    async def admit(self, company_id: str) -> None:
        """Counts a request. Delays a throttled company's request by less than a second, or raises ``RateLimited``.

        ``RateLimited`` is usually raised after up to three seconds, to slow down clients that retry immediately.
        """
        pause, wait = self.take(company_id)
        if pause:
            await asyncio.sleep(pause)
        if wait:
            self._on_refused()
            held = 0 if self._holding.locked() else min(wait, _LONGEST_HOLD)
            if held:
                async with self._holding:
                    await asyncio.sleep(held)
            detail = ErrorDetail(loc=[], type="busy", message=_BUSY)
            raise RateLimited(_BUSY, details=[detail], retry_after=max(wait - held, 1))

    def take(self, company_id: str) -> tuple[float, int]:
        """Counts a request. Returns its delay and, if it's rejected, the time until a retry, both in seconds or 0."""
        sender = self._senders.setdefault(company_id, _Sender())
        sender.came += 1
        left = sender.credit - 1 / sender.allowed
        if left < -_PAUSE_SECONDS:
            wait = min(math.ceil(sender.coming / sender.allowed), _LONGEST_RETRY // 2)
            # Spreads the retries.
            return 0.0, wait + random.randint(0, wait)
        sender.credit = left
        return max(-left, 0.0), 0

    async def run(self) -> None:
        """Measures how late the event loop is. Runs until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            await asyncio.sleep(TICK_SECONDS)
            self.observe(clock() - began - TICK_SECONDS)

    def observe(self, late: float) -> None:
        """Adapts the bounds after a tick that ended ``late`` seconds too late."""
        elapsed = TICK_SECONDS + late
        short, long = min(elapsed / _SHORT_SECONDS, 1.0), min(elapsed / _LONG_SECONDS, 1.0)
        self._lateness += TICK_SECONDS / _SHORT_SECONDS * (min(late, _LATEST_SECONDS) - self._lateness)
        for sender in self._senders.values():
            sender.coming += long * (sender.came / elapsed - sender.coming)
            sender.passing += short * (min(sender.came / elapsed, sender.allowed) - sender.passing)
            sender.came = 0
        self._senders = {company: each for company, each in self._senders.items() if each.coming > _FORGOTTEN_BELOW}
        is_shared, in_time = len(self._senders) > 1, self._lateness <= _LATE_SECONDS
        if is_shared and not in_time:
            company_id, first = max(self._senders.items(), key=lambda each: each[1].passing)
            if first.passing > LEAST_PER_SECOND:
                if first.allowed == math.inf:
                    _log.warning("load.shed", company_id=company_id, requests_per_second=round(first.passing))
                    first.allowed = first.passing
                first.allowed = max(first.allowed * _LESS, LEAST_PER_SECOND)
        for sender in self._senders.values():
            if in_time:
                sender.allowed *= _MORE
            if not is_shared or (in_time and sender.allowed > 2 * sender.coming):
                sender.allowed = math.inf
            sender.credit = min(sender.credit + elapsed, _BURST_SECONDS)
