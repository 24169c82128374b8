"""Loops for periodic work."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

_BACKOFF: Final = 1.25


async def repeat(action: Callable[[], Awaitable[object]], seconds: float) -> None:
    """Runs ``action`` with a pause of ``seconds`` between runs, until cancelled."""
    while True:
        await action()
        await asyncio.sleep(seconds)


async def repeat_when_woken(action: Callable[[], Awaitable[object]], woken: asyncio.Event, seconds: float) -> None:
    """Runs ``action`` now, when ``woken`` is set, and ``seconds`` after its last run, until cancelled."""
    while True:
        woken.clear()
        await action()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await woken.wait()


async def repeat_while_busy(
    action: Callable[[], Awaitable[int]], idle_seconds: float, *, longest: float = 0.0, full: int = 1
) -> None:
    """Runs ``action`` until cancelled. It returns the amount of work done; if that's less than ``full``, a pause
    follows.

    Without work, the pauses grow from ``idle_seconds`` to ``longest``.
    """
    pause = idle_seconds
    while True:
        done = await action()
        pause = idle_seconds if done else min(pause * _BACKOFF, max(longest, idle_seconds))
        if done < full:
            await asyncio.sleep(pause)
