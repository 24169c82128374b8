"""Parses files of collections before a knowledge base asks for them, when there is nothing else to do."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from services.ingestion.domain.ports.knowledge_bases import WorkQueue
from services.ingestion.domain.runs import Token
from services.ingestion.use_cases.document_loader import DocumentLoader

_BATCH: Final = 8


@dataclass(frozen=True, slots=True)
class ParseAhead:
    queue: WorkQueue
    loader: DocumentLoader
    claims: Callable[[], Sequence[Token]]

    async def __call__(self) -> int:
        """Returns how many texts it found."""
        found = [] if self.claims() else await self.queue.unparsed(_BATCH)
        await asyncio.gather(*map(self.loader.parse_ahead, found))
        return len(found)
