"""Search over the internal API; the reply is what the public API answers."""

from typing import Annotated

from fastapi import APIRouter, Depends

from libs.contracts.api.knowledge import SearchBody, SearchReply
from libs.contracts.identity import Identity
from libs.service_defaults import caller
from services.ingestion.use_cases.search_knowledge_base import KnowledgeBaseSearch

Caller = Annotated[Identity, Depends(caller)]


def search_router(search: KnowledgeBaseSearch) -> APIRouter:
    router = APIRouter(prefix="/internal/knowledge-bases")

    @router.post("/{knowledge_base_id}/search")
    async def search_knowledge_base(knowledge_base_id: str, body: SearchBody, who: Caller) -> SearchReply:
        return await search.search(who, knowledge_base_id, body)

    return router
