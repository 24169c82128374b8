"""Retry policies with exponential backoff and jitter, based on tenacity, and a circuit breaker."""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar, cast

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]
_MOST_DOUBLINGS: Final = 30
_OPEN_SECONDS: Final = 10.0


class Transient(Exception):
    """A failure that may be temporary. ``retry_after`` is the delay in seconds that the other side requests."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When and how often to retry. The backoff doubles from ``first`` to ``longest`` seconds.

    Retries stop after ``attempts`` calls, or before a wait that would exceed ``give_up_after`` seconds since the first
    call. By default, both are unlimited. Retries also stop if a ``Transient`` requests a longer wait than ``longest``.
    """

    first: float = 0.1
    longest: float = 10.0
    attempts: int | None = None
    give_up_after: float = math.inf
    clock: Callable[[], float] = time.monotonic
    sleep: Sleep = asyncio.sleep
    jitter: Callable[[], float] = random.random

    async def run(
        self,
        call: Callable[[], Awaitable[T]],
        *,
        on: type[Exception] = Exception,
        when: Callable[[Exception], bool] = lambda _: True,
        outage: Callable[[Exception], bool] = lambda _: False,
        before_sleep: Callable[[Exception, int], None] = lambda *_: None,
    ) -> T:
        """Retries ``call``, which must be idempotent, until it succeeds. Raises the last failure unchanged.

        Retries only failures of type ``on`` that satisfy ``when``. A failure that satisfies ``outage`` restarts the
        ``give_up_after`` period. ``before_sleep`` receives the failure and the attempt's number.
        """
        began = self.clock()
        try:
            # Most calls succeed immediately, and many take less time than tenacity.
            return await call()
        except on as problem:
            if not when(problem):
                raise
            failure: Exception | None = problem

        async def attempt() -> T:
            nonlocal failure
            if failure is not None:
                first, failure = failure, None
                raise first
            return await call()

        def is_over(state: RetryCallState) -> bool:
            nonlocal began
            if outage(_problem(state)):
                began = self.clock()
            return self._is_over(state, began)

        retrying = AsyncRetrying(
            stop=is_over,
            sleep=self.sleep,
            wait=self._wait,
            retry=retry_if_exception(lambda problem: isinstance(problem, on) and when(problem)),
            before_sleep=lambda state: before_sleep(_problem(state), state.attempt_number),
            reraise=True,
        )
        return cast(T, await retrying(attempt))

    def _wait(self, state: RetryCallState) -> float:
        backoff = min(self.longest, self.first * 2.0 ** min(state.attempt_number - 1, _MOST_DOUBLINGS))
        # Half of the wait is random, so that callers that failed together don't retry together.
        return max(_retry_after(state), backoff * (0.5 + self.jitter() / 2))

    def _is_over(self, state: RetryCallState, began: float) -> bool:
        if self.attempts is not None and state.attempt_number >= self.attempts:
            return True
        late = self.clock() + state.upcoming_sleep - began >= self.give_up_after
        return late or _retry_after(state) > self.longest


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


def _problem(state: RetryCallState) -> Exception:
    assert state.outcome is not None
    return cast(Exception, state.outcome.exception())


def _retry_after(state: RetryCallState) -> float:
    problem = _problem(state)
    return problem.retry_after or 0.0 if isinstance(problem, Transient) else 0.0
