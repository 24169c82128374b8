"""Routes and command handlers of knowledge bases."""

from typing import Final

from fastapi import APIRouter, FastAPI

from libs.contracts.resources.knowledge_bases import (
    CreateKnowledgeBase,
    DatasourcePage,
    DeleteKnowledgeBase,
    IngestKnowledgeBase,
    KnowledgeBase,
    KnowledgeBasePage,
    KnowledgeBaseState,
    SearchBody,
    SearchReply,
    UpdateKnowledgeBase,
)
from libs.eventing import CommandRouter
from libs.service_defaults import Caller, Cursor, Limit, Offset
from services.ingestion.adapters.postgres.knowledge_bases import PostgresKnowledgeBaseReader
from services.ingestion.entrypoints.resources.files import Order
from services.ingestion.use_cases.knowledge_bases import KnowledgeBases
from services.ingestion.use_cases.search import SearchKnowledgeBase

_MESSAGES: Final = {
    "pending": "The ingestion hasn't started.",
    "running": "The ingestion is running.",
    "completed": "All data sources have been ingested.",
    "failed": "Some data sources couldn't be ingested. The others are searchable.",
}


def serve_knowledge_bases(
    commands: CommandRouter,
    http: FastAPI,
    bases: KnowledgeBases,
    reads: PostgresKnowledgeBaseReader,
    search: SearchKnowledgeBase,
) -> None:
    commands.handle_prepared(CreateKnowledgeBase, bases.check_new, bases.create)
    commands.handle_prepared(UpdateKnowledgeBase, bases.check_change, bases.update)
    commands.handle(IngestKnowledgeBase, bases.ingest)
    commands.handle(DeleteKnowledgeBase, bases.delete, ends_later=True)
    http.include_router(_reads(reads, search))


def _reads(bases: PostgresKnowledgeBaseReader, search: SearchKnowledgeBase) -> APIRouter:
    router = APIRouter(prefix="/internal/knowledge-bases")

    @router.get("")
    async def list_knowledge_bases(
        caller: Caller,
        limit: Limit = 50,
        offset: Offset = 0,
        after: str | None = None,
        order: Order = "desc",
        cursor: Cursor = None,
    ) -> KnowledgeBasePage:
        page = await bases.page(
            caller.company_id, limit=limit, offset=offset, after=after, oldest_first=order == "asc", cursor=cursor
        )
        return KnowledgeBasePage(knowledge_bases=[view.public() for view in page.items], **page.facts)

    @router.get("/{knowledge_base_id}")
    async def get_knowledge_base(knowledge_base_id: str, caller: Caller) -> KnowledgeBase:
        return (await bases.view(caller.company_id, knowledge_base_id)).public()

    @router.get("/{knowledge_base_id}/check_status")
    async def check_status(knowledge_base_id: str, caller: Caller) -> KnowledgeBaseState:
        """Returns the knowledge base's status, and records that the caller has seen the status."""
        view = await bases.view(caller.company_id, knowledge_base_id)
        seen = await bases.mark_seen(knowledge_base_id, caller.user_id, view.stored.status_version)
        return KnowledgeBaseState(
            message=_MESSAGES[view.stored.status], knowledge_base=view.public(), status_updated=not seen
        )

    @router.get("/{knowledge_base_id}/datasources")
    async def list_datasources(
        knowledge_base_id: str, caller: Caller, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None
    ) -> DatasourcePage:
        page = await bases.sources(caller.company_id, knowledge_base_id, limit=limit, offset=offset, cursor=cursor)
        return DatasourcePage(datasources=[each.snapshot() for each in page.items], **page.facts)

    @router.post("/{knowledge_base_id}/search")
    async def search_knowledge_base(knowledge_base_id: str, body: SearchBody, caller: Caller) -> SearchReply:
        return await search(caller, knowledge_base_id, body)

    return router
