"""Reclaims the work of processes that have ended."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

_log: Final = structlog.get_logger("database.reclaiming")


class Holders(Protocol):
    """Processes that hold leases, by the numbers that they have announced."""

    async def numbers(self) -> list[int]:
        """All that hold anything."""

    async def free(self, numbers: Collection[int]) -> int:
        """Ends the leases of these and queues what they held at once, as attempts that count; returns of how many."""


@dataclass(frozen=True, slots=True)
class ReclaimWork:
    """Queues what processes held that are gone, without waiting for the end of their leases.

    ``gone`` tells which processes have ended. It may be wrong about one that lives: what that one does to its work
    from then on has no effect, since the leases are no longer its own.
    """

    holders: Holders
    gone: Callable[[Collection[int]], Collection[int]]

    async def __call__(self) -> None:
        if (gone := self.gone(await self.holders.numbers())) and (freed := await self.holders.free(gone)):
            _log.info("work.reclaimed", rows=freed, processes=sorted(gone))
