"""Limits the requests of each key with token buckets."""

import math
from collections.abc import Callable
from typing import Final

_PRUNE_ABOVE: Final = 10_000


class RateLimiter:
    """One bucket per key, refilled evenly and holding one minute's worth. Counts in this replica only."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key_id: str, per_minute: int) -> int:
        """Takes one token. Returns 0, or the whole seconds until there is a token again."""
        now = self._monotonic()
        tokens, since = self._buckets.get(key_id, (float(per_minute), now))
        rate = per_minute / 60
        tokens = min(float(per_minute), tokens + (now - since) * rate)
        if tokens < 1:
            self._buckets[key_id] = (tokens, now)
            return max(1, math.ceil((1 - tokens) / rate))
        if len(self._buckets) > _PRUNE_ABOVE:
            self._forget_idle(now)
        self._buckets[key_id] = (tokens - 1, now)
        return 0

    def _forget_idle(self, now: float) -> None:
        """Drops buckets untouched for a minute, which are full again."""
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if now - bucket[1] < 60}
