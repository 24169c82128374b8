"""Parses files of collections before a knowledge base asks for them, when there is nothing else to do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from libs.fairness import Capacity
from libs.persistence import LeasedWork
from services.ingestion.domain.files import UnparsedText
from services.ingestion.domain.ports.knowledge_bases import WorkQueue
from services.ingestion.domain.runs import Token
from services.ingestion.use_cases.document_loader import DocumentLoader


@dataclass(frozen=True, slots=True)
class ParseAhead:
    queue: WorkQueue
    loader: DocumentLoader
    claims: Callable[[], Sequence[Token]]
    at_once: int

    async def __call__(self) -> int:
        """Parses until there is nothing left or something else to do; returns how many texts it claimed."""
        return await LeasedWork(
            claim=self._claim,
            renew=lambda _: self.loader.renew(),
            process=self.loader.parse_ahead,
            company_of=lambda text: text.company_id,
            each=self.at_once,
            lease_seconds=self.loader.lease_seconds,
        )()

    async def _claim(self, capacity: Capacity) -> Sequence[UnparsedText]:
        return [] if self.claims() else await self.loader.claim(await self.queue.unparsed(capacity))
