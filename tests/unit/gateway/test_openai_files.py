"""Files and vector stores with OpenAI's own client."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from libs.contracts.identifiers import new_id
from libs.contracts.messages import Event
from libs.contracts.resources.files import DeleteFile, FileDeleted
from libs.contracts.resources.knowledge_bases import (
    CreateKnowledgeBase,
    DeleteKnowledgeBase,
    KnowledgeBase,
    KnowledgeBaseCreated,
    KnowledgeBaseDeleted,
    KnowledgeBaseUpdated,
    UpdateKnowledgeBase,
    UpdateKnowledgeBaseBody,
)
from libs.contracts.timestamps import now_text
from services.gateway.entrypoints.openai.vector_store_answers import batch_id, files_of_batch
from tests.support.gateway import Gateway, Sent

STORE, DONE, WAITING, BROKEN = (new_id() for _ in range(4))
FILE = {
    "id": DONE,
    "name": "fares.txt",
    "content_type": "text/plain",
    "size": 5,
    "sha256": "0" * 64,
    "status": "active",
    "tags": [],
    "collection_ids": [],
    "created_at": now_text(),
    "updated_at": now_text(),
}


def base(**changes: Any) -> dict[str, Any]:
    states = {DONE: "completed", WAITING: "pending", BROKEN: "failed"}
    snapshots = {each: {"id": each, "name": "f", "ingestion_status": state} for each, state in states.items()}
    error = {"code": "damaged", "message": "no PDF", "phase": "parsing", "attempt": 1, "retryable": False}
    fields = {
        "id": STORE,
        "name": "Fares",
        "description": "",
        "processing_engine": "pgvector",
        "dataset_name": "Fares",
        "normalized_dataset_name": "fares",
        "status": "running",
        "progress": 10,
        "collection_ids": [],
        "file_ids": [DONE, WAITING, BROKEN],
        "datasources": [],
        "datasource_count": 1,
        "total_datasources": 3,
        "ingested_datasources": [],
        "failed_datasources": [],
        "datasource_errors": {BROKEN: error},
        "datasource_snapshots": snapshots,
        "success_rate": 50.0,
        "chunking_strategy": {"strategy": "recursive", "chunk_size": 512, "chunk_overlap": 64, "split_by": "token"},
        "embedding_config": {},
        "llm_config": {},
        "processing_metadata": {},
        "created_by_name": "Ada",
        "company_name": "Ferries",
        "created_at": now_text(),
        "updated_at": now_text(),
    }
    return {**fields, **changes}


def upstream(sent: Sent) -> list[Event]:
    match sent.command:
        case CreateKnowledgeBase():
            created = base(id=sent.command_id, datasource_snapshots={}, datasource_errors={}, status="pending")
            return [KnowledgeBaseCreated(knowledge_base=KnowledgeBase.model_validate(created))]
        case UpdateKnowledgeBase():
            return [KnowledgeBaseUpdated(knowledge_base=KnowledgeBase.model_validate(base()))]
        case DeleteKnowledgeBase():
            return [KnowledgeBaseDeleted(knowledge_base_id=STORE)]
        case DeleteFile():
            return [FileDeleted(file_id=DONE)]
    return []


@pytest.fixture
def client(public: Gateway, openai_client: AsyncOpenAI) -> AsyncOpenAI:
    answers = public.upstreams.answers
    answers["GET", "ingestion", f"/internal/knowledge-bases/{STORE}"] = (200, base())
    answers["GET", "ingestion", "/internal/knowledge-bases"] = (
        200, {"knowledge_bases": [base()], "total": 1, "has_more": False},
    )  # fmt: skip
    answers["POST", "ingestion", "/internal/files"] = (201, FILE)
    answers["GET", "ingestion", f"/internal/files/{DONE}"] = (200, FILE)
    answers["GET", "ingestion", "/internal/files"] = (200, {"files": [FILE], "total": 1, "has_more": False})
    public.bus.upstream = upstream
    return openai_client


async def test_an_upload_is_a_form_with_a_purpose(public: Gateway, client: AsyncOpenAI) -> None:
    stored = await client.files.create(file=("fares.txt", b"three"), purpose="assistants")
    assert (stored.id, stored.filename, stored.bytes, stored.object) == (DONE, "fares.txt", 5, "file")
    [(headers, body)] = public.upstreams.uploaded
    boundary = headers["Content-Type"].partition("boundary=")[2].encode()
    assert b"purpose" not in body
    assert body.startswith(b"--" + boundary + b'\r\nContent-Disposition: form-data; name="file"; filename="fares.txt"')
    assert body.endswith(b"\r\n\r\nthree\r\n--" + boundary + b"--\r\n")


async def test_other_fields_of_an_upload_are_refused(client: AsyncOpenAI) -> None:
    cases: list[Any] = [
        ({"purpose": "fine-tune"}, "purpose"),
        (
            {"purpose": "assistants", "expires_after": {"anchor": "created_at", "seconds": 1}},
            "expires_after[anchor]",
        ),
        ({"purpose": "assistants", "extra_body": {"name": "x"}}, "name"),
    ]
    for fields, param in cases:
        with pytest.raises(openai.BadRequestError) as problem:
            await client.files.create(file=("fares.txt", b"three"), **fields)
        assert problem.value.param == param


async def test_files_are_listed_read_and_deleted(public: Gateway, client: AsyncOpenAI) -> None:
    listed = await client.files.list(order="asc", limit=2, after=STORE, purpose="assistants")
    assert [each.id for each in listed.data] == [DONE]
    assert public.upstreams.asked[-1][3] == {"limit": 2, "order": "asc", "after": STORE}
    await client.files.list(after="\0")
    assert public.upstreams.asked[-1][3]["after"] == "\ufffd"
    assert (await client.files.list(purpose="batch")).data == []
    assert (await client.files.retrieve(DONE)).status == "processed"
    public.upstreams.answers["GET", "ingestion", f"/internal/files/{DONE}/download"] = (200, {"any": "bytes"})
    assert (await client.files.content(DONE)).read() == b'{"any":"bytes"}'
    assert (await client.files.delete(DONE)).deleted
    for unknown in ("file-abc", new_id()):
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(unknown)
    for fields in ({"limit": 0}, {"order": "up"}, {"extra_query": {"before": DONE}}):
        with pytest.raises(openai.BadRequestError):
            await client.files.list(**fields)  # type: ignore[arg-type]


async def test_a_vector_store_is_a_knowledge_base(public: Gateway, client: AsyncOpenAI) -> None:
    chunking: Any = {"type": "static", "static": {"max_chunk_size_tokens": 800, "chunk_overlap_tokens": 400}}
    created = await client.vector_stores.create(name="Fares", file_ids=[DONE], chunking_strategy=chunking)
    command = public.bus.sent[-1].command
    assert isinstance(command, CreateKnowledgeBase)
    assert json.loads(command.encode())["settings"] == {
        "name": "Fares",
        "description": "",
        "file_ids": [DONE],
        "ingest": True,
        "chunking_strategy": {"chunk_size": 800, "chunk_overlap": 400},
    }
    assert (created.object, created.status, created.file_counts.total) == ("vector_store", "completed", 0)
    found = await client.vector_stores.retrieve(STORE)
    assert (found.status, found.name) == ("in_progress", "Fares")
    counts = found.file_counts
    assert (counts.in_progress, counts.completed, counts.failed, counts.total) == (2, 0, 1, 3)
    assert [each.id async for each in client.vector_stores.list()] == [STORE]
    await client.vector_stores.update(STORE, name="Prices")
    command = public.bus.sent[-1].command
    assert isinstance(command, UpdateKnowledgeBase)
    assert (command.changes, command.ingest) == (UpdateKnowledgeBaseBody(name="Prices"), False)
    assert (await client.vector_stores.delete(STORE)).deleted
    await client.vector_stores.create()
    command = public.bus.sent[-1].command
    assert isinstance(command, CreateKnowledgeBase)
    assert command.settings.ingest is False


@pytest.mark.parametrize(
    ("overlap", "name", "param"), [(100, "Fares", "chunking_strategy"), (0, " ", "name"), (0, "x" * 201, "name")]
)
async def test_a_store_that_is_no_knowledge_base_is_refused(
    public: Gateway, client: AsyncOpenAI, overlap: int, name: str, param: str
) -> None:
    chunking: Any = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": overlap}}
    with pytest.raises(openai.BadRequestError, match=r"Invalid knowledge base settings\.") as problem:
        await client.vector_stores.create(name=name, chunking_strategy=chunking)
    assert problem.value.param == param
    assert public.bus.sent == []


async def test_attached_files_are_ingested_at_once(public: Gateway, client: AsyncOpenAI) -> None:
    attached = await client.vector_stores.files.create(STORE, file_id=WAITING)
    assert (attached.id, attached.vector_store_id, attached.status) == (WAITING, STORE, "in_progress")
    command = public.bus.sent[-1].command
    assert isinstance(command, UpdateKnowledgeBase)
    assert (command.add_file_ids, command.remove_file_ids, command.ingest) == ([WAITING], [], True)
    broken = await client.vector_stores.files.retrieve(BROKEN, vector_store_id=STORE)
    assert (broken.status, broken.last_error.code) == ("failed", "invalid_file")
    newest_first = [each.id async for each in client.vector_stores.files.list(STORE, limit=1)]
    assert newest_first == [BROKEN, WAITING, DONE]
    assert (await client.vector_stores.files.retrieve(DONE, vector_store_id=STORE)).status == "in_progress"
    public.upstreams.answers["GET", "ingestion", f"/internal/knowledge-bases/{STORE}"] = (200, base(status="failed"))
    done = await client.vector_stores.files.list(STORE, filter="completed", order="asc")
    assert [each.id for each in done.data] == [DONE]
    assert (await client.vector_stores.files.delete(DONE, vector_store_id=STORE)).deleted
    command = public.bus.sent[-1].command
    assert isinstance(command, UpdateKnowledgeBase)
    assert (command.remove_file_ids, command.ingest) == ([DONE], True)
    text = {"file_id": DONE, "text": "three", "offset": 0, "characters": 5}
    public.upstreams.answers["GET", "ingestion", f"/internal/files/{DONE}/text"] = (200, text)
    assert [each.text async for each in client.vector_stores.files.content(DONE, vector_store_id=STORE)] == ["three"]
    with pytest.raises(openai.NotFoundError):
        await client.vector_stores.files.retrieve(new_id(), vector_store_id=STORE)


async def test_a_batch_is_told_by_its_id(public: Gateway, client: AsyncOpenAI) -> None:
    created = await client.vector_stores.file_batches.create(STORE, file_ids=[DONE, WAITING, DONE])
    command = public.bus.sent[-1].command
    assert isinstance(command, UpdateKnowledgeBase)
    assert (command.add_file_ids, command.ingest) == ([DONE, WAITING], True)
    assert (created.status, created.file_counts.total) == ("in_progress", 2)
    found = await client.vector_stores.file_batches.retrieve(created.id, vector_store_id=STORE)
    assert found.file_counts == created.file_counts
    listed = client.vector_stores.file_batches.list_files(created.id, vector_store_id=STORE)
    assert [each.id async for each in listed] == [WAITING, DONE]
    for unknown in ("vsfb_", "vsfb_abc", "vsfb_é", "x"):
        with pytest.raises(openai.NotFoundError):
            await client.vector_stores.file_batches.retrieve(unknown, vector_store_id=STORE)
    with pytest.raises(openai.BadRequestError):
        await client.vector_stores.file_batches.create(STORE)
    assert files_of_batch(batch_id([DONE])) == [DONE]


async def test_a_search_has_passages(public: Gateway, client: AsyncOpenAI) -> None:
    passage = {"passage": "Three crowns.", "file_id": DONE, "file_name": "fares.txt", "score": 0.5}
    reply = {"query": "fare", "mode": "hybrid", "results": [passage]}
    public.upstreams.answers["POST", "ingestion", f"/internal/knowledge-bases/{STORE}/search"] = (200, reply)
    of_file: Any = {"type": "eq", "key": "file_id", "value": DONE}
    tagged: Any = {"type": "in", "key": "tag", "value": ["a", "b"]}
    found = await client.vector_stores.search(
        STORE,
        query=["fare"],
        max_num_results=3,
        filters={"type": "and", "filters": [of_file, tagged]},
        ranking_options={"score_threshold": 0.25},
    )
    [result] = found.data
    assert (result.file_id, result.filename, result.score) == (DONE, "fares.txt", 0.5)
    assert result.content[0].text == "Three crowns."
    assert public.upstreams.asked[-1][3] == {
        "query": "fare",
        "top_k": 3,
        "min_score": 0.25,
        "filters": {"file_ids": [DONE], "tags": ["a", "b"]},
    }
    for filters in (
        {"type": "eq", "key": "author", "value": "x"},
        {"type": "or", "filters": [of_file]},
        {"type": "and", "filters": [of_file, of_file]},
        {"type": "gt", "key": "tag", "value": "x"},
    ):
        with pytest.raises(openai.BadRequestError) as problem:
            await client.vector_stores.search(STORE, query="fare", filters=filters)  # type: ignore[arg-type]
        assert problem.value.param == "filters"


async def test_fields_of_stores_are_honoured_or_refused_by_name(client: AsyncOpenAI) -> None:
    cases: list[Any] = [
        ({"metadata": {"a": "b"}}, "metadata"),
        ({"expires_after": {"anchor": "last_active_at", "days": 1}}, "expires_after"),
        ({"extra_body": {"colour": "red"}}, "colour"),
        (
            {
                "chunking_strategy": {
                    "type": "static",
                    "static": {"max_chunk_size_tokens": 5, "chunk_overlap_tokens": 0},
                }
            },
            "chunking_strategy",
        ),
    ]
    for fields, param in cases:
        with pytest.raises(openai.BadRequestError) as problem:
            await client.vector_stores.create(name="Fares", **fields)
        assert str(problem.value.param).startswith(param)
