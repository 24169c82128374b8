"""The stop of a service: its phases share one deadline, so that none takes the time of those after it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

_log = structlog.get_logger("service")
# By which part of the whole each phase has ended. What a phase leaves, the next ones may use.
CONSUMERS: Final = 0.35
HOOKS: Final = 0.75
REQUESTS: Final = 0.85
OUTBOX: Final = 0.9
TASKS: Final = 0.95
CONNECTIONS: Final = 1.0


class Stopping:
    """``seconds`` from now on for everything."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._seconds = seconds

    def left(self, phase: float) -> float:
        """Seconds until a phase has to have ended."""
        return max(0.0, self._began + self._seconds * phase - self._loop.time())

    async def phase(self, name: str, phase: float, work: Callable[[], Awaitable[object]]) -> None:
        """Run what must neither fail nor outlast its phase: whatever it leaves undone, the rest is still to stop."""
        try:
            async with asyncio.timeout(self.left(phase)):
                await work()
        except TimeoutError:
            _log.warning("service.stop_cut_short", phase=name)
        except Exception:
            _log.exception("service.stop_failed", phase=name)
