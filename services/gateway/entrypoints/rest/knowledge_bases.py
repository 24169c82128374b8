"""Serves ``/knowledge-bases/…``: searchable documents."""

from typing import Annotated, Final

import orjson
from fastapi import Depends, Security
from starlette.responses import Response

from libs.contracts.identifiers import id_of
from libs.contracts.identity import Scope
from libs.contracts.resources.collections import AvailableCollections
from libs.contracts.resources.knowledge_bases import (
    CreateKnowledgeBase,
    CreateKnowledgeBaseBody,
    DatasourcePage,
    DeleteKnowledgeBase,
    IngestBody,
    IngestKnowledgeBase,
    KnowledgeBase,
    KnowledgeBasePage,
    KnowledgeBaseState,
    SearchBody,
    SearchReply,
    UpdateKnowledgeBase,
    UpdateKnowledgeBaseBody,
)
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import rendered
from services.gateway.entrypoints.door.application import Submit, Upstream
from services.gateway.entrypoints.door.bodies import ParsedBody
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.queries import Page, Unfiltered
from services.gateway.entrypoints.door.routes import answer, errors, public_router

router = public_router("/knowledge-bases", "Knowledge bases")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.KNOWLEDGE_READ])]
Writer = Annotated[Principal, Security(by_api_key, scopes=[Scope.KNOWLEDGE_WRITE])]
_BASE: Final = "/internal/knowledge-bases"
Search = Annotated[SearchBody, Depends(ParsedBody(SearchBody))]
NewKnowledgeBase = Annotated[CreateKnowledgeBaseBody, Depends(ParsedBody(CreateKnowledgeBaseBody))]
KnowledgeBaseChanges = Annotated[UpdateKnowledgeBaseBody, Depends(ParsedBody(UpdateKnowledgeBaseBody))]
Ingestion = Annotated[IngestBody, Depends(ParsedBody(IngestBody, required=False))]


@router.get(
    "/",
    operation_id="knowledge_bases.list",
    summary="List knowledge bases",
    responses={200: answer("Knowledge bases, newest first.", KnowledgeBasePage)},
)
async def list_knowledge_bases(caller: Reader, page: Page, upstream: Upstream) -> Response:
    return await upstream.get(caller, "ingestion", _BASE, page.params())


@router.get(
    "/available-collections/",
    operation_id="knowledge_bases.available_collections",
    summary="List the collections that a knowledge base can use",
    responses={200: answer("All collections.", AvailableCollections)},
)
async def list_available_collections(caller: Reader, _: Unfiltered, upstream: Upstream) -> Response:
    return await upstream.get(caller, "ingestion", f"{_BASE}/available-collections")


@router.get(
    "/{kb_id:name}/datasources/",
    operation_id="knowledge_bases.datasources",
    summary="List the data sources of a knowledge base",
    responses={200: answer("Files and their ingestion status.", DatasourcePage), **errors(404)},
)
async def list_datasources(kb_id: str, caller: Reader, page: Page, upstream: Upstream) -> Response:
    return await upstream.get(caller, "ingestion", f"{_path(kb_id)}/datasources", page.params())


@router.get(
    "/{kb_id:name}/",
    operation_id="knowledge_bases.get",
    summary="Get a knowledge base",
    responses={200: answer("The knowledge base.", KnowledgeBase), **errors(404)},
)
async def get_knowledge_base(kb_id: str, caller: Reader, upstream: Upstream) -> Response:
    return await upstream.get(caller, "ingestion", _path(kb_id))


@router.get(
    "/{kb_id:name}/check_status/",
    operation_id="knowledge_bases.check_status",
    summary="Get the progress of an ingestion",
    description="`status_updated` is true if the status changed since your last request.",
    responses={200: answer("The knowledge base and its progress.", KnowledgeBaseState), **errors(404)},
)
async def check_knowledge_base_status(kb_id: str, caller: Reader, upstream: Upstream) -> Response:
    return await upstream.get(caller, "ingestion", f"{_path(kb_id)}/check_status")


@router.post(
    "/{kb_id:name}/search/",
    operation_id="knowledge_bases.search",
    summary="Search a knowledge base",
    responses={200: answer("Passages, best first.", SearchReply), **errors(404)},
)
async def search_knowledge_base(kb_id: str, caller: Reader, body: Search, upstream: Upstream) -> Response:
    query = orjson.dumps(body.model_dump(mode="json", exclude_unset=True))
    return await upstream.post(caller, "ingestion", f"{_path(kb_id)}/search", query)


@router.post(
    "/",
    operation_id="knowledge_bases.create",
    summary="Create a knowledge base",
    description="The first ingestion starts immediately, unless `ingest` is false.",
    status_code=201,
    responses={201: answer("The knowledge base.", KnowledgeBase, location=True)},
)
async def create_knowledge_base(_: Writer, body: NewKnowledgeBase, submit: Submit) -> Response:
    made = await submit.new(
        CreateKnowledgeBase, lambda new_id: CreateKnowledgeBase(knowledge_base_id=new_id, settings=body)
    )
    return rendered(made, "knowledge_base", location="/knowledge-bases/{id}/")


@router.patch(
    "/{kb_id:name}/",
    operation_id="knowledge_bases.update",
    summary="Update a knowledge base",
    description="New content and settings take effect with the next ingestion.",
    responses={200: answer("The updated knowledge base.", KnowledgeBase), **errors(404)},
)
async def update_knowledge_base(kb_id: str, _: Writer, body: KnowledgeBaseChanges, submit: Submit) -> Response:
    command = UpdateKnowledgeBase(knowledge_base_id=id_of(kb_id, "knowledge base"), changes=body)
    return rendered(await submit(command), "knowledge_base")


@router.post(
    "/{kb_id:name}/ingest/",
    operation_id="knowledge_bases.ingest",
    summary="Start an ingestion",
    description="Ingests new, changed and failed files, and drops files that were removed or deleted.",
    responses={200: answer("The ingestion has started.", KnowledgeBase), **errors(404)},
)
async def ingest_knowledge_base(
    kb_id: str, caller: Writer, _: Ingestion, submit: Submit, upstream: Upstream
) -> Response:
    await submit(IngestKnowledgeBase(knowledge_base_id=id_of(kb_id, "knowledge base")))
    return await upstream.get(caller, "ingestion", _path(kb_id))


@router.delete(
    "/{kb_id:name}/",
    operation_id="knowledge_bases.delete",
    summary="Delete a knowledge base",
    description="Also deletes the knowledge base's index. Collections and files remain.",
    status_code=204,
    responses={204: answer("The knowledge base was deleted."), **errors(404)},
)
async def delete_knowledge_base(kb_id: str, _: Writer, submit: Submit) -> Response:
    return rendered(await submit(DeleteKnowledgeBase(knowledge_base_id=id_of(kb_id, "knowledge base"))))


def _path(kb_id: str) -> str:
    return f"{_BASE}/{id_of(kb_id, 'knowledge base')}"
