"""Retries of the database's work that a turn cannot do without."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from libs.retry import RetryPolicy
from services.runtime.domain.ports import StoreUnavailable

T = TypeVar("T")

_log = structlog.get_logger("runtime.turns")
STORE_RETRIES: Final = RetryPolicy(first=0.2, longest=2.0)


async def retry_until_available(
    call: Callable[[], Awaitable[T]], *, turn_id: str, policy: RetryPolicy = STORE_RETRIES
) -> T:
    """Retries until the store answers; held locks are an outage, too. Unbounded: the caller has a deadline or none."""

    def log(problem: Exception, _attempt: int) -> None:
        _log.warning("turn.delayed_by_outage", turn_id=turn_id, problem=str(problem))

    return await policy.run(call, on=StoreUnavailable, before_sleep=log)
