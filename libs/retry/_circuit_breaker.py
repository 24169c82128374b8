"""A circuit breaker, which keeps callers from queueing up behind an unavailable service."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeVar

from libs.retry._policy import RetryPolicy

T = TypeVar("T")
_OPEN_SECONDS: Final = 10.0


class CircuitBreaker:
    """Retries calls according to ``policy``. While the breaker is open, each call gets a single attempt.

    The breaker opens for ``open_seconds`` when a call fails despite retries. It closes at the next success.
    """

    def __init__(self, policy: RetryPolicy, open_seconds: float = _OPEN_SECONDS) -> None:
        self._policy = policy
        self._single = replace(policy, attempts=1)
        self._open_seconds = open_seconds
        self._opened = -math.inf

    async def run(self, call: Callable[[], Awaitable[T]], *, on: type[Exception]) -> T:
        """Runs ``call``, which must be idempotent, and retries it. Raises the last failure.

        Only failures of type ``on`` open the breaker.
        """
        is_open = self._policy.clock() - self._opened < self._open_seconds
        try:
            result = await (self._single if is_open else self._policy).run(call, on=on)
        except on:
            self._opened = self._policy.clock()
            raise
        self._opened = -math.inf
        return result
