"""Keeps at what must not end by itself: work in the background, and a start whose servers are away."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import structlog

from libs.persistence import is_outage

_log = structlog.get_logger("service")
_RETRY_SECONDS: Final = 1.0
Hook = Callable[[], Awaitable[None]]


def supervised(name: str, run: Hook, *, once: bool = False) -> asyncio.Task[None]:
    """Run it until cancelled: what fails is started again, and what ends as well, unless ``once``."""

    async def supervise() -> None:
        while True:
            try:
                await run()
                if once:
                    return
            except Exception:
                _log.exception("background.failed", task=name)
            await asyncio.sleep(_RETRY_SECONDS)

    return asyncio.create_task(supervise(), name=name)


async def until_answered(attempt: Hook) -> None:
    """Try until the database is there. Raises at once what waiting would not mend."""
    while True:
        try:
            await attempt()
            return
        except Exception as problem:
            if not is_outage(problem):
                raise
            _log.warning("database.unreachable", problem=str(problem).strip())
            await asyncio.sleep(_RETRY_SECONDS)


async def unless_stopped(step: Coroutine[Any, Any, None], stop: asyncio.Event) -> bool:
    """Whether the step came to its end before a stop, which does not wait for what may never answer."""
    stepping = asyncio.create_task(step)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({stepping, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if stepping.done():
            stepping.result()
            return not stop.is_set()
        _log.info("service.start_cut_short")
        return False
    finally:
        for task in (stepping, stopping):
            task.cancel()
        # Cleaning up may take a moment; what hangs in it is left behind.
        await asyncio.wait({stepping, stopping}, timeout=_RETRY_SECONDS)
