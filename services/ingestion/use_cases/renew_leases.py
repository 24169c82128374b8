"""Renews the leases of what this process works at, and keeps what waits in it from being sent again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.ingestion.domain.ports.knowledge_bases import WorkItems
from services.ingestion.domain.runs import ItemKey, Token
from services.ingestion.use_cases.document_loader import DocumentLoader


@dataclass(frozen=True, slots=True)
class RenewLeases:
    items: WorkItems
    loader: DocumentLoader
    claims: Callable[[], Sequence[Token]]
    waiting: Callable[[], Sequence[ItemKey]]

    async def __call__(self) -> None:
        if claims := self.claims():
            await self.items.renew(claims)
        if waiting := self.waiting():
            await self.items.keep_sent(waiting)
        await self.loader.renew()
