"""Trying again while the database cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from services.runtime.domain.ports import StoreUnavailable

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

_log = structlog.get_logger("runtime.turns")
_PAUSES: Final = (0.1, 0.5, 1.0, 2.0)


async def outlast(call: Callable[[], Awaitable[T]], *, turn_id: str, sleep: Sleep = asyncio.sleep) -> T:
    """Call until the database answers. Unbounded: the caller has a deadline, or must not give up."""
    attempt = 0
    while True:
        try:
            return await call()
        except StoreUnavailable as problem:
            _log.warning("turn.delayed_by_outage", turn_id=turn_id, problem=str(problem))
            await sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])
            attempt += 1
