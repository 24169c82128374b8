"""Renews the leases of what this process works at."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.ingestion.domain.ports.knowledge_bases import WorkItems
from services.ingestion.domain.runs import Token
from services.ingestion.use_cases.document_loader import DocumentLoader


@dataclass(frozen=True, slots=True)
class RenewLeases:
    items: WorkItems
    loader: DocumentLoader
    claims: Callable[[], Sequence[Token]]

    async def __call__(self) -> None:
        if claims := self.claims():
            await self.items.renew(claims)
        await self.loader.renew()
