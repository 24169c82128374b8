"""Limits how often the phases of items are written."""

from collections.abc import Callable, Mapping
from typing import Final

from services.ingestion.domain.ports.knowledge_bases import WorkItems
from services.ingestion.domain.runs import ItemKey, Token

_SECONDS: Final = 0.5


class ProgressThrottle:
    """One per process. Small files pass through all phases faster than anyone looks: most reports are dropped."""

    def __init__(self, items: WorkItems, clock: Callable[[], float]) -> None:
        self._items = items
        self._clock = clock
        self._written: dict[str, float] = {}

    async def report(self, token: Token, chunks: Mapping[ItemKey, int], phase: str) -> None:
        """``chunks``: how many the items have, 0 for not known yet."""
        now = self._clock()
        if now - self._written.get(phase, -_SECONDS) >= _SECONDS:
            self._written[phase] = now
            await self._items.advance(token, chunks, phase)
