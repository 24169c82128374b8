"""Periodic work beside commands and streams. Any number of processes may do the same at once."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from services.ingestion.use_cases.index_artifacts import IndexArtifacts, RemoveDeletedArtifacts


async def repeat(action: Callable[[], Awaitable[object]], seconds: float) -> None:
    """Runs ``action`` with that pause in between, until cancelled."""
    while True:
        await action()
        await asyncio.sleep(seconds)


async def repeat_when_woken(action: Callable[[], Awaitable[object]], woken: asyncio.Event, seconds: float) -> None:
    """Runs ``action`` now, whenever it is ``woken``, and ``seconds`` after it ran last, until cancelled."""
    while True:
        woken.clear()
        await action()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await woken.wait()


async def repeat_while_busy(action: Callable[[], Awaitable[int]], idle_seconds: float) -> None:
    """Runs ``action``, which returns how much it did, with a pause only when there was nothing; until cancelled."""
    while True:
        if not await action():
            await asyncio.sleep(idle_seconds)


async def process_artifacts(index: IndexArtifacts, remove: RemoveDeletedArtifacts) -> int:
    """Documents that wait come before the removal of deleted ones."""
    return await index() or await remove()
