"""Keeps this worker's lease alive."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from libs.retry import Sleep
from services.runtime.domain.ports import Leases, StoreUnavailable

_log = structlog.get_logger("runtime.lease")
_RETRY_SECONDS: Final = 0.5


class LeaseKeeper:
    """``interval`` seconds between renewals, well below the lease time."""

    def __init__(self, leases: Leases, *, interval: float, sleep: Sleep = asyncio.sleep) -> None:
        self._leases = leases
        self._interval = interval
        self._sleep = sleep
        self._renewing = asyncio.Lock()
        self._given_up = False

    async def run(self) -> None:
        """Renew until cancelled; in an outage try again soon, so that a short one costs no turn."""
        while True:
            try:
                await self._renew()
            except StoreUnavailable as problem:
                _log.warning("lease.not_renewed", problem=str(problem))
                # An expired lease can still be renewed as long as nobody has taken the turns over.
                await self._sleep(_RETRY_SECONDS)
            else:
                await self._sleep(self._interval)

    async def give_up(self) -> None:
        """Others may take at once what this worker held. It is not renewed any more, nor by what is under way."""
        self._given_up = True
        async with self._renewing:
            await self._leases.release()

    async def _renew(self) -> None:
        async with self._renewing:
            if not self._given_up:
                await self._leases.renew()
