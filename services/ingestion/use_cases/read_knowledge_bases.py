"""Read knowledge bases; whatever is not the caller's company's is not found."""

from __future__ import annotations

from libs.contracts.api.knowledge import DatasourcePage, KnowledgeBase, KnowledgeBasePage, KnowledgeBaseState
from libs.contracts.identity import Identity
from services.ingestion.domain.knowledge_bases import KnowledgeBaseNotFound
from services.ingestion.domain.ports.knowledge_bases import KnowledgeBaseReader

_MESSAGES = {
    "pending": "The ingestion has not begun.",
    "running": "The ingestion goes on.",
    "completed": "Every datasource is ingested.",
    "failed": "Some datasources could not be ingested; what was ingested is searchable.",
}


class KnowledgeBaseReading:
    def __init__(self, reader: KnowledgeBaseReader) -> None:
        self._reader = reader

    async def one(self, caller: Identity, knowledge_base_id: str) -> KnowledgeBase:
        view = await self._reader.view(caller.company_id, knowledge_base_id)
        if view is None:
            raise KnowledgeBaseNotFound()
        return view.public()

    async def page(self, caller: Identity, *, limit: int, offset: int) -> KnowledgeBasePage:
        views, total = await self._reader.page(caller.company_id, limit=limit, offset=offset)
        return KnowledgeBasePage(
            knowledge_bases=[view.public() for view in views], total=total, has_more=offset + len(views) < total
        )

    async def state(self, caller: Identity, knowledge_base_id: str) -> KnowledgeBaseState:
        """Also notes that this caller knows the status now."""
        view = await self._reader.view(caller.company_id, knowledge_base_id)
        if view is None:
            raise KnowledgeBaseNotFound()
        seen = await self._reader.seen(knowledge_base_id, caller.user_id, view.stored.status_version)
        return KnowledgeBaseState(
            message=_MESSAGES[view.stored.status], knowledge_base=view.public(), status_updated=not seen
        )

    async def datasources(self, caller: Identity, knowledge_base_id: str, *, limit: int, offset: int) -> DatasourcePage:
        found = await self._reader.sources(caller.company_id, knowledge_base_id, limit=limit, offset=offset)
        if found is None:
            raise KnowledgeBaseNotFound()
        sources, total = found
        return DatasourcePage(
            datasources=[each.snapshot() for each in sources], total=total, has_more=offset + len(sources) < total
        )
