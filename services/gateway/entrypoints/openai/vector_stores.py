"""Serves ``/openai/v1/vector_stores``: knowledge bases that ingest attached files immediately."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import orjson
from fastapi import Depends, Query, Security
from starlette.responses import Response

from libs.contracts.errors import NotFound
from libs.contracts.identifiers import id_of
from libs.contracts.identity import Scope
from libs.contracts.resources.files import FileText
from libs.contracts.resources.knowledge_bases import (
    CreateKnowledgeBase,
    DeleteKnowledgeBase,
    KnowledgeBase,
    KnowledgeBasePage,
    SearchReply,
    UpdateKnowledgeBase,
    UpdateKnowledgeBaseBody,
)
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import Write
from services.gateway.entrypoints.door.answers import UpstreamReplies, entity_in, value_answer
from services.gateway.entrypoints.door.application import Door, DoorDep, Upstream, protocol_router
from services.gateway.entrypoints.door.bodies import ParsedBody
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.writes import IdempotentWrite
from services.gateway.entrypoints.openai import vector_store_answers as answers
from services.gateway.entrypoints.openai.conventions import PREFIX, deleted, refuse
from services.gateway.entrypoints.openai.pages import Cursor, ListQuery, page, page_within
from services.gateway.entrypoints.openai.vector_store_bodies import (
    AttachFile,
    AttachFiles,
    CreateStore,
    SearchStore,
    UpdateStore,
)

router: Final = protocol_router(f"{PREFIX}/vector_stores")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.KNOWLEDGE_READ])]
Writer = Annotated[Principal, Security(by_api_key, scopes=[Scope.KNOWLEDGE_WRITE])]
_BASE: Final = "/internal/knowledge-bases"
_TEXT: Final = {"limit": 1_000_000}


class StoreFilesQuery(ListQuery):
    filter: str | None = None


FilesCursor = Annotated[StoreFilesQuery, Query()]
NewStore = Annotated[CreateStore, Depends(ParsedBody(CreateStore, required=False))]
StoreChanges = Annotated[UpdateStore, Depends(ParsedBody(UpdateStore))]
Search = Annotated[SearchStore, Depends(ParsedBody(SearchStore))]
NewFile = Annotated[AttachFile, Depends(ParsedBody(AttachFile))]
NewFiles = Annotated[AttachFiles, Depends(ParsedBody(AttachFiles))]


@router.post("")
async def create_store(_: Writer, body: NewStore, write: IdempotentWrite, door: DoorDep) -> Response:
    created = await door.commands.create(
        write,
        CreateKnowledgeBase,
        lambda new_id: CreateKnowledgeBase(knowledge_base_id=new_id, settings=body.settings()),
    )
    return _store(KnowledgeBase.model_validate_json(entity_in(created, "knowledge_base")))


@router.get("")
async def list_stores(cursor: Cursor, caller: Reader, upstream: Upstream) -> Response:
    found = await upstream.read(KnowledgeBasePage, caller, "ingestion", _BASE, cursor.upstream())
    return page([answers.store(each) for each in found.knowledge_bases], has_more=found.has_more)


@router.get("/{store_id}")
async def get_store(store_id: str, caller: Reader, upstream: Upstream) -> Response:
    return _store(await _found(upstream, caller, store_id))


@router.post("/{store_id}")
async def update_store(store_id: str, _: Writer, body: StoreChanges, write: IdempotentWrite, door: DoorDep) -> Response:
    return _store(await _change(door, write, store_id, name=body.name))


@router.delete("/{store_id}")
async def delete_store(store_id: str, _: Writer, write: IdempotentWrite, door: DoorDep) -> Response:
    store_id = id_of(store_id, "vector store")
    await door.commands.run(write, DeleteKnowledgeBase(knowledge_base_id=store_id))
    return deleted(store_id, "vector_store.deleted")


@router.post("/{store_id}/search")
async def search_store(store_id: str, caller: Reader, body: Search, upstream: Upstream) -> Response:
    path = f"{_BASE}/{id_of(store_id, 'vector store')}/search"
    reply = await upstream.ask(caller, "ingestion", path, orjson.dumps(body.wanted()))
    found = SearchReply.model_validate_json(reply)
    return value_answer(answers.results(body.text, found.results))


@router.post("/{store_id}/files")
async def attach_file(store_id: str, _: Writer, body: NewFile, write: IdempotentWrite, door: DoorDep) -> Response:
    store = await _change(door, write, store_id, attached=[body.file_id])
    return value_answer(answers.store_file(store, body.file_id))


@router.get("/{store_id}/files")
async def list_store_files(store_id: str, cursor: FilesCursor, caller: Reader, upstream: Upstream) -> Response:
    store = await _found(upstream, caller, store_id)
    return page_within(_entries(store, list(store.datasource_snapshots), cursor.filter), cursor)


@router.get("/{store_id}/files/{file_id}")
async def get_store_file(store_id: str, file_id: str, caller: Reader, upstream: Upstream) -> Response:
    store = await _found(upstream, caller, store_id)
    return value_answer(answers.store_file(store, _within(store, file_id)))


@router.get("/{store_id}/files/{file_id}/content")
async def get_store_file_content(store_id: str, file_id: str, caller: Reader, upstream: Upstream) -> Response:
    file_id = _within(await _found(upstream, caller, store_id), file_id)
    found = await upstream.read(FileText, caller, "ingestion", f"/internal/files/{file_id}/text", _TEXT)
    data = [{"type": "text", "text": found.text}]
    return value_answer(
        {"object": "vector_store.file_content.page", "data": data, "has_more": False, "next_page": None}
    )


@router.delete("/{store_id}/files/{file_id}")
async def detach_file(
    store_id: str, file_id: str, caller: Writer, write: IdempotentWrite, door: DoorDep, upstream: Upstream
) -> Response:
    """Detaches a file without deleting it. Raises ``ValidationFailed`` if the file belongs to a collection."""
    store = await _found(upstream, caller, store_id)
    if _within(store, file_id) not in store.file_ids:
        raise refuse(
            "file_id",
            "The file belongs to one of the vector store's collections. Remove it from that collection.",
            "in_collection",
        )
    await _change(door, write, store_id, detached=[file_id])
    return deleted(file_id, "vector_store.file.deleted")


@router.post("/{store_id}/file_batches")
async def attach_files(store_id: str, _: Writer, body: NewFiles, write: IdempotentWrite, door: DoorDep) -> Response:
    file_ids = [id_of(each, "file") for each in body.ids()]
    store = await _change(door, write, store_id, attached=file_ids)
    return value_answer(answers.batch(store, answers.batch_id(file_ids), file_ids))


@router.get("/{store_id}/file_batches/{batch_id}")
async def get_batch(store_id: str, batch_id: str, caller: Reader, upstream: Upstream) -> Response:
    store = await _found(upstream, caller, store_id)
    return value_answer(answers.batch(store, batch_id, answers.files_of_batch(batch_id)))


@router.get("/{store_id}/file_batches/{batch_id}/files")
async def list_batch_files(
    store_id: str, batch_id: str, cursor: FilesCursor, caller: Reader, upstream: Upstream
) -> Response:
    store = await _found(upstream, caller, store_id)
    kept = [each for each in answers.files_of_batch(batch_id) if each in store.datasource_snapshots]
    return page_within(_entries(store, kept, cursor.filter), cursor)


async def _found(upstream: UpstreamReplies, caller: Principal, store_id: str) -> KnowledgeBase:
    return await upstream.read(KnowledgeBase, caller, "ingestion", f"{_BASE}/{id_of(store_id, 'vector store')}")


async def _change(
    door: Door,
    write: Write,
    store_id: str,
    *,
    name: str | None = None,
    attached: Sequence[str] = (),
    detached: Sequence[str] = (),
) -> KnowledgeBase:
    """Renames a store, or attaches and detaches files, which starts an ingestion."""
    command = UpdateKnowledgeBase(
        knowledge_base_id=id_of(store_id, "vector store"),
        changes=UpdateKnowledgeBaseBody(name=name),
        add_file_ids=list(attached),
        remove_file_ids=list(detached),
        ingest=bool(attached or detached),
    )
    changed = await door.commands.run(write, command)
    return KnowledgeBase.model_validate_json(entity_in(changed, "knowledge_base"))


def _within(store: KnowledgeBase, file_id: str) -> str:
    if file_id not in store.datasource_snapshots:
        raise NotFound("The vector store has no file with this ID.")
    return file_id


def _entries(store: KnowledgeBase, file_ids: list[str], status: str | None) -> list[dict[str, Any]]:
    entries = [answers.store_file(store, each) for each in sorted(file_ids)]
    return [each for each in entries if status is None or each["status"] == status]


def _store(knowledge_base: KnowledgeBase) -> Response:
    return value_answer(answers.store(knowledge_base))
