"""What the service does by itself, for as long as it runs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from libs.contracts.errors import ServiceUnavailable

_log: Final = structlog.get_logger(__name__)


class Upkeep:
    """Repeats some work: at once when told to by ``wake``, and every ``seconds`` for what others left."""

    def __init__(self, name: str, work: Callable[[], Awaitable[int]], *, seconds: float) -> None:
        self._name = name
        self._work = work
        self._seconds = seconds
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """There is something to do once the transaction that calls this is committed."""
        self._woken.set()

    async def run(self) -> None:
        while True:
            self._woken.clear()
            if not await self.once():
                await self._pause()

    async def once(self) -> int:
        """Do what there is to do; returns how much that was."""
        try:
            return await self._work()
        except ServiceUnavailable as problem:
            _log.warning("upkeep.put_off", work=self._name, problem=problem.message)
            return 0

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await self._woken.wait()
        except TimeoutError:
            return
        # Whoever woke it has not committed yet.
        await asyncio.sleep(0.02)
