"""Waits for what happens elsewhere by asking again and again, with a generous limit."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
TIMEOUT_SECONDS = 240.0


async def eventually(
    look: Callable[[], Awaitable[T | None]], *, limit: float = TIMEOUT_SECONDS, pause: float = 0.1
) -> T:
    """Polls ``look`` until it finds something. Fails the test after ``limit`` seconds."""
    deadline = time.monotonic() + limit
    while True:
        found = await look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{getattr(look, '__qualname__', look)} found nothing within {limit:g} s: {found!r}")
        await asyncio.sleep(pause)


def wait_until(look: Callable[[], T | None], *, limit: float = TIMEOUT_SECONDS, pause: float = 0.2) -> T:
    """``eventually`` for code without an event loop."""
    deadline = time.monotonic() + limit
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{getattr(look, '__qualname__', look)} found nothing within {limit:g} s: {found!r}")
        time.sleep(pause)
