"""Loops that run an action repeatedly."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

_BACKOFF: Final = 1.25


async def repeat(action: Callable[[], Awaitable[object]], seconds: float) -> None:
    """Runs ``action`` until cancelled, with a pause of ``seconds`` after each run."""
    while True:
        await action()
        await asyncio.sleep(seconds)


async def repeat_when_woken(action: Callable[[], Awaitable[object]], woken: asyncio.Event, seconds: float) -> None:
    """Runs ``action`` until cancelled: now, whenever ``woken`` is set, and ``seconds`` after the last run."""
    while True:
        woken.clear()
        await action()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await woken.wait()


async def repeat_while_busy(
    action: Callable[[], Awaitable[int]], idle_seconds: float, *, longest: float = 0.0, full: int = 1
) -> None:
    """Runs ``action`` until cancelled. Pauses if it returns less than ``full``, the amount of work done.

    While ``action`` returns 0, the pauses grow from ``idle_seconds`` to ``longest``.
    """
    pause = idle_seconds
    while True:
        done = await action()
        pause = idle_seconds if done else min(pause * _BACKOFF, max(longest, idle_seconds))
        if done < full:
            await asyncio.sleep(pause)
