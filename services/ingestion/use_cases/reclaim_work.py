"""Reclaims the work of processes that have ended."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import structlog

from services.ingestion.domain.ports.knowledge_bases import Holders

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReclaimWork:
    """Queues what processes held that are gone, without waiting for the end of their leases.

    ``gone`` tells which processes have ended. It may be wrong about one that lives: what that one does to its items and
    runs from then on has no effect, since their tokens are no longer its own.
    """

    holders: Holders
    gone: Callable[[Collection[int]], Collection[int]]

    async def __call__(self) -> None:
        if (gone := self.gone(await self.holders.numbers())) and (freed := await self.holders.free(gone)):
            _log.info("work.reclaimed", rows=freed, processes=sorted(gone))
