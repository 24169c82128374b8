"""Maintains the timeline's partitions, and deletes old usage."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import structlog

from libs.contracts.errors import StoreUnavailable
from services.timeline.domain.ports import TimelinePartitions
from services.timeline.domain.usage import UsageRetention

_log = structlog.get_logger("timeline.maintenance")
_HOUR: Final = 3600.0
_RETRY_SECONDS: Final = 60.0
_BATCH: Final = 5000


async def keep_timeline(partitions: TimelinePartitions, now: Callable[[], datetime], days: int) -> None:
    """Creates partitions in advance and drops those older than ``days``, every hour until cancelled."""
    while True:
        today = now().date()
        try:
            await partitions.make(today)
            await partitions.drop_before(today - timedelta(days=days))
        except StoreUnavailable as problem:
            # A long read may have blocked a partition. There's time to retry, because partitions exist days in advance.
            _log.warning("timeline.not_maintained", problem=repr(problem))
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            await asyncio.sleep(_HOUR)


async def purge_usage(usage: UsageRetention, now: Callable[[], datetime], keep: timedelta) -> int:
    """Deletes a batch of usage older than ``keep``. Returns the number of rows."""
    try:
        return await usage.purge(now() - keep, limit=_BATCH)
    except StoreUnavailable as problem:
        _log.warning("usage.not_purged", problem=repr(problem))
        return 0
