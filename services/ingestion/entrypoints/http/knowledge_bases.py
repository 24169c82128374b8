"""Reads of knowledge bases over the internal API; the replies are what the public API answers."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from libs.contracts.api.knowledge import DatasourcePage, KnowledgeBase, KnowledgeBasePage, KnowledgeBaseState
from libs.contracts.identity import Identity
from libs.service_defaults import caller
from services.ingestion.use_cases.read_knowledge_bases import KnowledgeBaseReading

Caller = Annotated[Identity, Depends(caller)]
Limit = Annotated[int, Query(ge=1, le=200)]
Offset = Annotated[int, Query(ge=0, le=2**31)]


def knowledge_bases_router(reading: KnowledgeBaseReading) -> APIRouter:
    router = APIRouter(prefix="/internal/knowledge-bases")

    @router.get("")
    async def list_knowledge_bases(who: Caller, limit: Limit = 50, offset: Offset = 0) -> KnowledgeBasePage:
        return await reading.page(who, limit=limit, offset=offset)

    @router.get("/{knowledge_base_id}")
    async def get_knowledge_base(knowledge_base_id: str, who: Caller) -> KnowledgeBase:
        return await reading.one(who, knowledge_base_id)

    @router.get("/{knowledge_base_id}/check_status")
    async def check_status(knowledge_base_id: str, who: Caller) -> KnowledgeBaseState:
        return await reading.state(who, knowledge_base_id)

    @router.get("/{knowledge_base_id}/datasources")
    async def list_datasources(
        knowledge_base_id: str, who: Caller, limit: Limit = 50, offset: Offset = 0
    ) -> DatasourcePage:
        return await reading.datasources(who, knowledge_base_id, limit=limit, offset=offset)

    return router
