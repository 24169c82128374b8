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
_OTHERS_PER_SECOND, _FORGOTTEN_BELOW = 0.25, 0.02
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
    """A company's requests in this tick, and its rates per second.

    Received requests are averaged over five seconds, and accepted requests over half a second.
    """

    came: int = 0
    passed: int = 0
    coming: float = 0.0
    passing: float = 0.0
    allowed: float = math.inf
    tokens: float = math.inf


class LoadShedding:
    """Throttles the busiest company while the event loop is late and other companies send requests.

    Never throttles a company below ``LEAST_PER_SECOND``. While the event loop is on time, bounds rise until they have
    no effect.
    """

    def __init__(self, *, on_refused: Callable[[], None] = lambda: None) -> None:
        self._on_refused = on_refused
        self._senders: dict[str, _Sender] = {}
        self._lateness = 0.0
        self._held = 0
        self._shared = asyncio.Event()

    @property
    def bounds(self) -> dict[str, float]:
        """The throttled companies, with the number of requests per second that each may send."""
        return {company: each.allowed for company, each in self._senders.items() if each.allowed < math.inf}

    async def admit(self, company_id: str) -> None:
        """Counts a request. Delays a throttled company's request by less than a second, or raises ``RateLimited``.

        ``RateLimited`` is usually raised after up to three seconds, to slow down clients that retry immediately.
        """
        pause, wait = self.take(company_id)
        if len(self._senders) > 1:
            self._shared.set()
        if pause:
            await asyncio.sleep(pause)
        if not wait:
            return
        self._on_refused()
        held = 0
        if self._held < _MOST_HELD:
            held = min(wait, _LONGEST_HOLD)
            self._held += 1
            try:
                await asyncio.sleep(held)
            finally:
                self._held -= 1
        details = [ErrorDetail(loc=[], type="busy", message=_BUSY)]
        raise RateLimited(_BUSY, details=details, retry_after=max(wait - held, 1))

    def take(self, company_id: str) -> tuple[float, int]:
        """Counts a request. Returns its delay and, if it's rejected, the time until a retry, both in seconds or 0."""
        sender = self._senders.setdefault(company_id, _Sender())
        if len(self._senders) == 1:
            sender.came = sender.passed = 0
        sender.came += 1
        if sender.tokens < 1 - sender.allowed * _PAUSE_SECONDS:
            wait = min(math.ceil(sender.coming / sender.allowed), _LONGEST_RETRY // 2)
            # Spreads the retries.
            return 0.0, wait + random.randint(0, wait)
        sender.passed += 1
        sender.tokens -= 1
        return max(-sender.tokens, 0.0) / sender.allowed, 0

    async def run(self) -> None:
        """Measures how late the event loop is while several companies send requests. Runs until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await self._shared.wait()
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
            sender.passing += short * (sender.passed / elapsed - sender.passing)
            sender.came = sender.passed = 0
        self._senders = {company: each for company, each in self._senders.items() if each.coming > _FORGOTTEN_BELOW}
        coming = [sender.coming for sender in self._senders.values()]
        is_shared = sum(coming) - max(coming, default=0.0) >= _OTHERS_PER_SECOND
        if len(coming) < 2:
            # Outdated numbers mustn't count when the observation resumes.
            self._senders, self._lateness = {}, 0.0
            self._shared.clear()
        elif is_shared and self._lateness > _LATE_SECONDS:
            self._bound_the_first()
        for sender in self._senders.values():
            in_time = self._lateness <= _LATE_SECONDS
            sender.allowed *= _MORE if in_time else 1.0
            if not is_shared or (in_time and sender.allowed > 2 * sender.coming):
                sender.allowed = sender.tokens = math.inf
            sender.tokens = min(sender.tokens + sender.allowed * elapsed, sender.allowed * _BURST_SECONDS)

    def _bound_the_first(self) -> None:
        company_id, first = max(self._senders.items(), key=lambda each: each[1].passing)
        if first.passing <= LEAST_PER_SECOND:
            return
        if first.allowed == math.inf:
            _log.warning("load.shed", company_id=company_id, requests_per_second=round(first.passing))
            first.allowed = first.tokens = first.passing
        less = max(first.allowed * _LESS, LEAST_PER_SECOND)
        if first.tokens < 0:
            # Scale the debt of waiting requests: at the new rate, the old debt would block later requests for seconds.
            first.tokens *= less / first.allowed
        first.allowed = less
