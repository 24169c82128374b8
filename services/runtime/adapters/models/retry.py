"""When a model call is made again, and after how long: the same for every provider."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from services.runtime.domain.model_errors import ModelFailed

RETRIED_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})

Answer = TypeVar("Answer")


class Retryable(Exception):
    """A failure that may pass. `retry_after` is what the provider asked for, in seconds."""

    def __init__(self, failure: ModelFailed, retry_after: float | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.retry_after = retry_after


def _nothing() -> None: ...


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`attempts` counts the first; a Retry-After beyond `longest_wait` (seconds) ends it at once."""

    attempts: int = 4
    first_wait: float = 0.5
    longest_wait: float = 20.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random
    on_retry: Callable[[], None] = _nothing

    async def run(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Raises the last failure as it is once the attempts are used up."""
        attempt = 1
        while True:
            try:
                return await call()
            except Retryable as error:
                wait = self._wait(attempt, error.retry_after)
                if attempt >= self.attempts or wait is None:
                    raise error.failure from error
            self.on_retry()
            await self.sleep(wait)
            attempt += 1

    def _wait(self, attempt: int, retry_after: float | None) -> float | None:
        # The upper half is random, so that callers refused together do not come back together.
        backoff: float = min(self.longest_wait, self.first_wait * 2 ** (attempt - 1)) * (0.5 + self.jitter() / 2)
        if retry_after is None:
            return backoff
        return None if retry_after > self.longest_wait else max(retry_after, backoff)


def retry_after_seconds(headers: Mapping[str, str], now: Callable[[], datetime] | None = None) -> float | None:
    """The header in seconds, from its number or date form; None when missing or unreadable."""
    milliseconds = headers.get("retry-after-ms")
    value = headers.get("retry-after")
    try:
        if milliseconds is not None:
            return max(0.0, float(milliseconds) / 1000)
        if value is None:
            return None
        return max(0.0, float(value))
    except ValueError:
        return _seconds_until(value, now or (lambda: datetime.now(UTC)))


def _seconds_until(value: str | None, now: Callable[[], datetime]) -> float | None:
    try:
        moment = parsedate_to_datetime(value or "")
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now()).total_seconds())
