"""Load shedding by company: requests of the one that sends most are refused while a gateway is too busy for all."""

import math
from dataclasses import dataclass
from typing import Final

TICK_SECONDS: Final = 0.1
LEAST_PER_SECOND: Final = 20.0
"""Requests that a company may always send to a gateway in a second."""
OTHERS_PER_SECOND: Final = 0.25
"""Requests of all other companies in a second, lately, from which on the first one shares the gateway with them."""
_LATE_SECONDS: Final = 0.003
# What a single stall counts for, as a neighbour on the machine makes: it bounds nobody by itself.
_LATEST_SECONDS: Final = 0.02
_SHORT_SECONDS: Final = 0.5
_LONG_SECONDS: Final = 5.0
_LESS: Final = 0.8
_MORE: Final = 1.02
_FORGOTTEN_AFTER: Final = 100
# Of a second's requests some may come at once, the others wait for their time.
_BURST_SECONDS: Final = 0.2
_PAUSE_SECONDS: Final = 0.8
_LONGEST_RETRY: Final = 10


@dataclass(slots=True)
class _Sender:
    """Requests of this tick, and those in a second: that came over the last five, that passed over the last half.

    ``idle``: ticks since the last one. ``allowed`` None: as many as come. ``tokens`` are below 0 while some wait.
    """

    idle: int = 0
    came: int = 0
    passed: int = 0
    coming: float = 0.0
    passing: float = 0.0
    allowed: float | None = None
    tokens: float = 0.0


class LoadShedding:
    """Bounds the company that sends most while an event loop is late and others want something.

    ``observe`` is told about every ``TICK_SECONDS`` how late it was called. A company alone is never bounded, nor one
    beside which the others ask for next to nothing, and none to less than ``LEAST_PER_SECOND``. While there is time for
    all, bounds rise until they hold nobody back. What a bounded company sends at once is spread over a second.
    """

    def __init__(self) -> None:
        self._senders: dict[str, _Sender] = {}
        self._lateness = 0.0
        self._refused = 0

    @property
    def is_shared(self) -> bool:
        """Whether several companies have sent something lately: otherwise there is nothing to decide."""
        return len(self._senders) > 1

    @property
    def bounds(self) -> dict[str, float]:
        """The companies that are bounded, and to how many requests a second."""
        return {company: sender.allowed for company, sender in self._senders.items() if sender.allowed is not None}

    def wait_of(self, company_id: str) -> int:
        """Counts a request; the seconds after which a refused one may be repeated, 0 when it is let through."""
        sender = self._senders.setdefault(company_id, _Sender())
        if not self.is_shared:
            sender.came = sender.passed = 0
        sender.came += 1
        if sender.allowed is not None:
            if sender.tokens < 1 - sender.allowed * _PAUSE_SECONDS:
                return self._retry_after(sender.coming / sender.allowed)
            sender.tokens -= 1
        sender.passed += 1
        return 0

    def pause_of(self, company_id: str) -> float:
        """Seconds that the request which was let through a moment ago waits before it is carried out."""
        sender = self._senders.get(company_id)
        if sender is None or sender.allowed is None or sender.tokens >= 0:
            return 0.0
        return -sender.tokens / sender.allowed

    def _retry_after(self, excess: float) -> int:
        """Lets about as many come back in a second as will be let through, and not all in the same one."""
        shortest = min(math.ceil(excess), _LONGEST_RETRY // 2)
        self._refused += 1
        return shortest + self._refused % (shortest + 1)

    def observe(self, late: float) -> None:
        elapsed = TICK_SECONDS + late
        short, long = min(elapsed / _SHORT_SECONDS, 1.0), min(elapsed / _LONG_SECONDS, 1.0)
        self._lateness += TICK_SECONDS / _SHORT_SECONDS * (min(late, _LATEST_SECONDS) - self._lateness)
        for company_id, sender in list(self._senders.items()):
            sender.coming += long * (sender.came / elapsed - sender.coming)
            sender.passing += short * (sender.passed / elapsed - sender.passing)
            sender.idle = 0 if sender.came else sender.idle + 1
            sender.came = sender.passed = 0
            if sender.idle >= _FORGOTTEN_AFTER:
                del self._senders[company_id]
        if not self.is_shared:
            # Nobody observes what is not shared: when it is again, nothing of today is to be held against anybody.
            self._senders.clear()
            self._lateness = 0.0
        elif self._others() < OTHERS_PER_SECOND:
            self._release()
        elif self._lateness > _LATE_SECONDS:
            self._bound_the_first()
        else:
            self._allow_more()
        self._refill(elapsed)

    def _others(self) -> float:
        """Requests a second of all companies but the one that sends most."""
        coming = [sender.coming for sender in self._senders.values()]
        return sum(coming) - max(coming)

    def _release(self) -> None:
        for sender in self._senders.values():
            sender.allowed = None

    def _bound_the_first(self) -> None:
        first = max(self._senders.values(), key=lambda sender: sender.passing)
        if first.passing <= LEAST_PER_SECOND:
            return
        if first.allowed is None:
            first.allowed = first.tokens = first.passing
        less = max(first.allowed * _LESS, LEAST_PER_SECOND)
        if first.tokens < 0:
            # Those who wait keep their time: at the new rate the old debt would hold up all that come for seconds.
            first.tokens *= less / first.allowed
        first.allowed = less

    def _allow_more(self) -> None:
        for sender in self._senders.values():
            if sender.allowed is not None:
                sender.allowed *= _MORE
                if sender.allowed > 2 * sender.coming:
                    sender.allowed = None

    def _refill(self, seconds: float) -> None:
        for sender in self._senders.values():
            if sender.allowed is not None:
                most = sender.allowed * _BURST_SECONDS
                sender.tokens = min(sender.tokens + sender.allowed * seconds, most)
