"""``/knowledge-bases/…``: documents made searchable."""

from typing import Final

import orjson

from libs.contracts.api.agents import StrictModel
from libs.contracts.api.files import AvailableCollections
from libs.contracts.api.knowledge import (
    CreateKnowledgeBaseBody,
    DatasourcePage,
    KnowledgeBase,
    KnowledgeBasePage,
    KnowledgeBaseState,
    SearchBody,
    SearchReply,
    UpdateKnowledgeBaseBody,
)
from libs.contracts.commands.ingestion import (
    CreateKnowledgeBase,
    DeleteKnowledgeBase,
    IngestKnowledgeBase,
    UpdateKnowledgeBase,
)
from libs.contracts.identity import Scope
from services.gateway.domain.outcomes import entity_in
from services.gateway.entrypoints.http import examples
from services.gateway.entrypoints.http.forwarding import Forwarding, id_in
from services.gateway.entrypoints.http.messages import Reply, Request
from services.gateway.entrypoints.http.operations import Answer, Body, Operation
from services.gateway.entrypoints.http.uploads import created
from services.gateway.use_cases.commands.command_dispatcher import CommandDispatcher

_TAG: Final = "Knowledge bases"
_BASE: Final = "/internal/knowledge-bases"


class IngestBody(StrictModel):
    """Nothing has to be said."""


class KnowledgeBases:
    def __init__(self, commands: CommandDispatcher, forward: Forwarding) -> None:
        self._commands = commands
        self._forward = forward

    async def list(self, request: Request) -> Reply:
        return await self._forward.page(request, "ingestion", _BASE)

    async def available(self, request: Request) -> Reply:
        return await self._forward.get(request, "ingestion", f"{_BASE}/available-collections")

    async def get(self, request: Request) -> Reply:
        return await self._forward.get(request, "ingestion", _path(request))

    async def check_status(self, request: Request) -> Reply:
        return await self._forward.get(request, "ingestion", f"{_path(request)}/check_status")

    async def datasources(self, request: Request) -> Reply:
        return await self._forward.page(request, "ingestion", f"{_path(request)}/datasources")

    async def search(self, request: Request) -> Reply:
        body = orjson.dumps(request.body.model_dump(mode="json", exclude_unset=True))
        return await self._forward.post(request, "ingestion", f"{_path(request)}/search", body)

    async def create(self, request: Request) -> Reply:
        settings = request.body.model_dump(mode="json", exclude_unset=True)
        event = await self._commands.create(
            request.write(),
            CreateKnowledgeBase,
            lambda new_id: CreateKnowledgeBase(knowledge_base_id=new_id, settings=settings),
        )
        knowledge_base = entity_in(event, "knowledge_base")
        return created(knowledge_base, f"/api/v1/knowledge-bases/{orjson.loads(knowledge_base)['id']}/")

    async def update(self, request: Request) -> Reply:
        kb_id = _id(request)
        changes = request.body.model_dump(mode="json", exclude_unset=True)
        command = UpdateKnowledgeBase(knowledge_base_id=kb_id, changes=changes)
        event = await self._commands.run(request.write(), command, subject=kb_id)
        return Reply(200, entity_in(event, "knowledge_base"))

    async def ingest(self, request: Request) -> Reply:
        kb_id = _id(request)
        await self._commands.run(request.write(), IngestKnowledgeBase(knowledge_base_id=kb_id), subject=kb_id)
        return await self.get(request)

    async def delete(self, request: Request) -> Reply:
        kb_id = _id(request)
        await self._commands.run(request.write(), DeleteKnowledgeBase(knowledge_base_id=kb_id), subject=kb_id)
        return Reply(204)

    def operations(self) -> tuple[Operation, ...]:
        return (*self._lists(), *self._reads(), *self._writes())

    def _lists(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="GET",
                path="/knowledge-bases/",
                name="list_knowledge_bases",
                summary="List knowledge bases",
                tag=_TAG,
                handler=self.list,
                scope=Scope.KNOWLEDGE_READ,
                paged=True,
                answers={200: Answer(description="Knowledge bases, newest first.", model=KnowledgeBasePage)},
                errors=(422,),
            ),
            Operation(
                method="GET",
                path="/knowledge-bases/available-collections/",
                name="list_available_collections",
                summary="List what a knowledge base can be made from",
                tag=_TAG,
                handler=self.available,
                scope=Scope.KNOWLEDGE_READ,
                answers={200: Answer(description="All collections.", model=AvailableCollections)},
            ),
            Operation(
                method="GET",
                path="/knowledge-bases/{kb_id}/datasources/",
                name="list_datasources",
                summary="List the datasources of a knowledge base",
                tag=_TAG,
                handler=self.datasources,
                scope=Scope.KNOWLEDGE_READ,
                paged=True,
                answers={200: Answer(description="Files and how far each is.", model=DatasourcePage)},
                errors=(404, 422),
            ),
        )

    def _reads(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="GET",
                path="/knowledge-bases/{kb_id}/",
                name="get_knowledge_base",
                summary="Get a knowledge base",
                tag=_TAG,
                handler=self.get,
                scope=Scope.KNOWLEDGE_READ,
                answers={200: Answer(description="The knowledge base.", model=KnowledgeBase)},
                errors=(404,),
            ),
            Operation(
                method="GET",
                path="/knowledge-bases/{kb_id}/check_status/",
                name="check_knowledge_base_status",
                summary="Follow an ingestion",
                description="`status_updated` tells whether the status changed since you last asked.",
                tag=_TAG,
                handler=self.check_status,
                scope=Scope.KNOWLEDGE_READ,
                answers={200: Answer(description="How far it is.", model=KnowledgeBaseState)},
                errors=(404,),
            ),
            Operation(
                method="POST",
                path="/knowledge-bases/{kb_id}/search/",
                name="search_knowledge_base",
                summary="Search a knowledge base",
                tag=_TAG,
                handler=self.search,
                scope=Scope.KNOWLEDGE_READ,
                body=Body(model=SearchBody, examples=examples.SEARCHES),
                answers={200: Answer(description="Passages, best first.", model=SearchReply)},
                errors=(404,),
            ),
        )

    def _writes(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="POST",
                path="/knowledge-bases/",
                name="create_knowledge_base",
                summary="Make a knowledge base",
                description="Its first ingestion begins at once, unless `ingest` is false.",
                tag=_TAG,
                handler=self.create,
                scope=Scope.KNOWLEDGE_WRITE,
                writes=True,
                body=Body(model=CreateKnowledgeBaseBody, examples=examples.KNOWLEDGE_BASES),
                answers={201: Answer(description="The knowledge base.", model=KnowledgeBase, headers=("Location",))},
            ),
            Operation(
                method="PATCH",
                path="/knowledge-bases/{kb_id}/",
                name="update_knowledge_base",
                summary="Change a knowledge base",
                description="Other content and settings take effect with the next ingestion.",
                tag=_TAG,
                handler=self.update,
                scope=Scope.KNOWLEDGE_WRITE,
                writes=True,
                body=Body(model=UpdateKnowledgeBaseBody, examples=examples.KNOWLEDGE_BASE_CHANGES),
                answers={200: Answer(description="The knowledge base as it is now.", model=KnowledgeBase)},
                errors=(404,),
            ),
            Operation(
                method="POST",
                path="/knowledge-bases/{kb_id}/ingest/",
                name="ingest_knowledge_base",
                summary="Ingest again",
                description="Takes up what is new, changed or failed, and drops what was taken out or deleted.",
                tag=_TAG,
                handler=self.ingest,
                scope=Scope.KNOWLEDGE_WRITE,
                writes=True,
                body=Body(model=IngestBody, examples={"nothing more to say": {}}, required=False),
                answers={200: Answer(description="The ingestion has begun.", model=KnowledgeBase)},
                errors=(404,),
            ),
            Operation(
                method="DELETE",
                path="/knowledge-bases/{kb_id}/",
                name="delete_knowledge_base",
                summary="Delete a knowledge base",
                description="Its indexed content goes; collections and files remain.",
                tag=_TAG,
                handler=self.delete,
                scope=Scope.KNOWLEDGE_WRITE,
                writes=True,
                answers={204: Answer(description="The knowledge base is gone.")},
                errors=(404,),
            ),
        )


def _id(request: Request) -> str:
    return id_in(request, "kb_id", "knowledge base")


def _path(request: Request) -> str:
    return f"{_BASE}/{_id(request)}"
