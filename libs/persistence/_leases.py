"""Keeps leases of claimed work alive."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog

_log = structlog.get_logger("database")


@asynccontextmanager
async def renewed_leases(renew: Callable[[], Awaitable[None]], lease_seconds: float) -> AsyncIterator[None]:
    """Renews leases four times in each lease time, for as long as the block runs.

    A renewal that fails is logged: the lease lasts for the next three.
    """
    ended = asyncio.Event()

    async def keep() -> None:
        while not ended.is_set():
            try:
                async with asyncio.timeout(lease_seconds / 4):
                    await ended.wait()
            except TimeoutError:
                try:
                    await renew()
                except Exception as problem:
                    _log.warning("lease.not_renewed", problem=repr(problem))

    keeping = asyncio.create_task(keep(), name="leases.renew")
    try:
        yield
    finally:
        # An event and not a cancellation, which could cut off a statement and fail in its own way.
        ended.set()
        await keeping
