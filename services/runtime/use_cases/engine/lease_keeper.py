"""Keeps this worker's lease alive."""

import asyncio
from typing import Final

import structlog

from libs.contracts.errors import StoreUnavailable
from libs.retry import RetryPolicy, Sleep
from services.runtime.domain.ports import WorkerLease

_log = structlog.get_logger("runtime.lease")
_RETRY_SECONDS: Final = 0.5


class LeaseKeeper:
    """Renews the lease every ``interval`` seconds, which must be well below the lease period."""

    def __init__(self, lease: WorkerLease, *, interval: float, sleep: Sleep = asyncio.sleep) -> None:
        self._lease = lease
        self._interval = interval
        self._sleep = sleep
        self._renewing = asyncio.Lock()
        self._released = False

    async def run(self) -> None:
        """Renews the lease until cancelled. Retries quickly, so that turns survive a short outage."""
        # An expired lease can still be renewed if no worker has taken its turns over.
        retries = RetryPolicy(first=_RETRY_SECONDS, longest=_RETRY_SECONDS, sleep=self._sleep)
        while True:
            await retries.run(self._renew, on=StoreUnavailable, before_sleep=_log_failure)
            await self._sleep(self._interval)

    async def release(self) -> None:
        """Releases the lease for good, so that other workers can immediately take over this worker's turns."""
        self._released = True
        async with self._renewing:
            await self._lease.release()

    async def _renew(self) -> None:
        async with self._renewing:
            if not self._released:
                await self._lease.renew()


def _log_failure(problem: Exception, _attempt: int) -> None:
    _log.warning("lease.not_renewed", problem=str(problem))
