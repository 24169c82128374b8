"""Runs periodic work for as long as the service runs."""

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
    """Work that runs every ``seconds`` and when woken, each time until nothing is left to do."""

    name: str
    work: Callable[[], Awaitable[int]]
    seconds: float
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Makes the work run soon. Call this in the transaction that creates work."""
        asyncio.get_running_loop().call_later(_COMMIT_SECONDS, self._woken.set)

    async def run(self) -> None:
        await repeat_when_woken(self._until_done, self._woken, self.seconds)

    async def once(self) -> int:
        """Runs the work once. Returns how many items it processed."""
        try:
            return await self.work()
        except StoreUnavailable as problem:
            _log.warning("maintenance.postponed", work=self.name, problem=str(problem))
            return 0

    async def _until_done(self) -> None:
        while await self.once():
            pass
