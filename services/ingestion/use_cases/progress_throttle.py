"""Notes which phase items are in, as often as somebody may want to see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from services.ingestion.domain.ports.knowledge_bases import WorkItems
from services.ingestion.domain.runs import ItemKey, Token

_SECONDS: Final = 0.5


class ProgressThrottle:
    """For one process. Small files go through all phases faster than anyone looks: most of that is not written."""

    def __init__(self, items: WorkItems, clock: Callable[[], float]) -> None:
        self._items = items
        self._clock = clock
        self._told: dict[str, float] = {}

    async def enter(self, token: Token, chunks: Mapping[ItemKey, int], phase: str) -> None:
        """``chunks``: how many the items have, 0 for not known yet."""
        now = self._clock()
        if now - self._told.get(phase, -_SECONDS) >= _SECONDS:
            self._told[phase] = now
            await self._items.advance(token, chunks, phase)
