"""Ends the process if work is stuck or the event loop hangs. The supervisor then restarts it."""

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from libs.contracts.errors import StoreUnavailable

_log = structlog.get_logger(__name__)
_CHECK_SECONDS: Final = 5.0
_EXIT_CODE: Final = 70


def end_process() -> None:
    """Ends the process immediately, because a graceful shutdown might hang, too."""
    os._exit(_EXIT_CODE)


class Watchdog:
    def __init__(
        self,
        stuck: Callable[[float], Awaitable[bool]],
        *,
        limit_seconds: float,
        end: Callable[[], None] = end_process,
        check_seconds: float = _CHECK_SECONDS,
    ) -> None:
        """Creates a watchdog. ``stuck(seconds)`` returns whether work has waited that long without any progress."""
        self._stuck = stuck
        self._limit = limit_seconds
        self._end = end
        self._check_seconds = check_seconds
        self._beat = time.monotonic()
        self._stopped = threading.Event()

    async def run(self) -> None:
        self._stopped.clear()
        thread = threading.Thread(target=self._watch_loop, name="watchdog", daemon=True)
        self._beat = time.monotonic()
        thread.start()
        started = time.monotonic()
        try:
            while True:
                await asyncio.sleep(self._check_seconds)
                self._beat = time.monotonic()
                if self._beat - started > self._limit and await self._is_stuck():
                    _log.critical("watchdog.work_stuck", seconds=self._limit)
                    self._end()
        finally:
            self._stopped.set()

    async def _is_stuck(self) -> bool:
        try:
            return await self._stuck(self._limit)
        except StoreUnavailable:
            return False

    def _watch_loop(self) -> None:
        while not self._stopped.wait(self._check_seconds):
            if time.monotonic() - self._beat > self._limit:
                _log.critical("watchdog.loop_blocked", seconds=self._limit)
                self._end()
