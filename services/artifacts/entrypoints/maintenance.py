"""Runs periodic work for the lifetime of the service."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from libs.contracts.errors import StoreUnavailable
from libs.service_defaults.repeating import repeat_when_woken

_log: Final = structlog.get_logger(__name__)
# When the work is woken, the transaction hasn't committed yet.
_COMMIT_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class PeriodicWork:
    """Repeats ``work`` until it finds nothing, then runs it every ``seconds`` and whenever ``wake`` is called."""

    name: str
    work: Callable[[], Awaitable[int]]
    seconds: float
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Wakes the work. Call it in a transaction that leaves work to do."""
        asyncio.get_running_loop().call_later(_COMMIT_SECONDS, self._woken.set)

    async def run(self) -> None:
        await repeat_when_woken(self._until_done, self._woken, self.seconds)

    async def once(self) -> int:
        """Runs the work once. Returns how much it found."""
        try:
            return await self.work()
        except StoreUnavailable as problem:
            _log.warning("maintenance.postponed", work=self.name, problem=str(problem))
            return 0

    async def _until_done(self) -> None:
        while await self.once():
            pass
