"""Calls of the runtime to artifacts and ingestion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from libs.contracts.errors import Conflict, NotFound, ServiceUnavailable, UnsupportedMediaType, ValidationFailed
from libs.contracts.identity import Identity
from libs.contracts.resources.artifacts import Artifact
from libs.retry import CircuitBreaker, RetryPolicy
from libs.service_defaults import UpstreamResponse, UpstreamStream
from services.runtime.adapters.internal_api.artifacts import HttpArtifacts
from services.runtime.adapters.internal_api.knowledge import HttpKnowledge
from services.runtime.domain.conversation import Citation
from services.runtime.domain.knowledge import KnowledgeBaseRef, Retrieved
from tests.support.agent_fakes import CALLER

RECORD = {
    "artifact_id": "a1", "session_id": "s/1", "name": "note.txt", "content_type": "text/plain", "size": 4,
    "sha256": "0", "origin": "uploaded", "processing_strategy": "rag_indexing", "processing_status": "failed",
    "error": {"type": "validation_error", "message": "it is damaged"}, "metadata": {"characters": 9},
    "created_at": "2030-01-01T00:00:00.000000Z", "updated_at": "2030-01-01T00:00:00.000000Z",
    "url": "http://x", "url_expires_at": "2030-01-01T00:00:00.000000Z",
}  # fmt: skip
FACTS = Artifact.model_validate(RECORD)
PATH = "/internal/sessions/s%2F1/artifacts"


@dataclass
class FakeCalls:
    """Gives one answer to everything, and records the requests; the first ``away`` ones get none."""

    status: int
    answer: bytes
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    away: int = 0

    async def request(self, method: str, owner: str, path: str, identity: Any, **how: Any) -> UpstreamResponse:
        assert (owner, identity) == ("artifacts", CALLER)
        sent = how["body"]
        self._answer()
        self.asked.append((method, path, how["params"], None if sent is None else orjson.loads(sent)))
        return UpstreamResponse(self.status, self.answer, "application/json")

    @asynccontextmanager
    async def exchange(
        self, method: str, owner: str, path: str, identity: Any, **how: Any
    ) -> AsyncIterator[UpstreamStream]:
        assert (owner, identity) == ("artifacts", CALLER)
        sent = b"".join([piece async for piece in how["body"]]) if "body" in how else None
        self._answer()
        self.asked.append((method, path, how.get("params"), sent))

        async def pieces() -> AsyncIterator[bytes]:
            yield self.answer[:2]
            yield self.answer[2:]

        yield UpstreamStream(self.status, {}, pieces())

    def _answer(self) -> None:
        if self.away:
            self.away -= 1
            raise ServiceUnavailable("the artifacts service cannot be reached")


def answering(answer: Any, status: int = 200) -> tuple[HttpArtifacts, FakeCalls]:
    calls = FakeCalls(status, answer if isinstance(answer, bytes) else orjson.dumps(answer))
    return HttpArtifacts(calls), calls


async def test_records() -> None:
    artifacts, calls = answering(RECORD)
    assert await artifacts.get("s/1", "a?1", CALLER) == FACTS
    assert await artifacts.by_url("s/1", "http://x", CALLER) == FACTS
    assert calls.asked == [
        ("GET", f"{PATH}/a%3F1", None, None),
        ("POST", f"{PATH}/resolve", None, {"url": "http://x"}),
    ]
    artifacts, _ = answering({"artifacts": [RECORD], "total": 1, "has_more": False})
    assert await artifacts.all("s/1", CALLER) == [FACTS]
    artifacts, calls = answering(RECORD, 201)
    assert await artifacts.create("s/1", CALLER, name="note.txt", key="turn/call", content=b"text") == FACTS
    params = {"name": "note.txt", "key": "turn/call"}
    assert calls.asked == [("POST", "/internal/sessions/s%2F1/generated-artifacts", params, b"text")]


async def test_contents(tmp_path: Path) -> None:
    artifacts, _ = answering({"artifact_id": "a1", "text": "text", "offset": 5, "characters": 9})
    text = await artifacts.text("s/1", "a1", CALLER, offset=5, limit=4)
    assert (text.text, text.offset, text.characters) == ("text", 5, 9)

    found = {"artifact_id": "a1", "name": "note.txt", "passage": "text", "score": 0.5, "page": 2}
    artifacts, calls = answering({"results": [found]})
    for wanted, sent in ((["a1"], {"artifact_ids": ["a1"]}), (None, {})):
        chunks = await artifacts.search("s/1", "what?", CALLER, artifact_ids=wanted, top_k=3)
        assert chunks == (Citation("text", 0.5, file_name="note.txt", page=2, artifact_id="a1"),)
        assert calls.asked[-1][3] == {"query": "what?", "top_k": 3, **sent}

    sheet = {"name": "S", "headers": ["a"], "types": ["integer"], "rows": [[1]], "row_count": 7}
    artifacts, calls = answering({"sheets": [sheet]})
    [table] = await artifacts.tables("s/1", "a1", CALLER, rows=1)
    assert (table.headers, table.rows, table.row_count) == (["a"], [[1]], 7)
    assert calls.asked[0][2] == {"rows": 1}

    artifacts, _ = answering(b"bytes of it")
    assert await artifacts.content("s/1", "a1", CALLER) == b"bytes of it"
    await artifacts.save("s/1", "a1", CALLER, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"bytes of it"


def calls_of(artifacts: HttpArtifacts, file: Path) -> list[Awaitable[object]]:
    asked = ("s/1", "a1", CALLER)
    return [
        artifacts.get(*asked),
        artifacts.content(*asked),
        artifacts.save(*asked, file),
        artifacts.create("s/1", CALLER, name="a.md", key="k", content=b"x"),
    ]


async def test_a_service_that_restarts_is_waited_for(tmp_path: Path) -> None:
    artifacts, calls = answering(RECORD)
    for call in calls_of(artifacts, tmp_path / "file"):
        calls.away = 1
        await call
    assert calls.asked[-1] == (*calls.asked[-1][:3], b"x")
    assert (tmp_path / "file").read_bytes() == calls.answer


@pytest.mark.parametrize(
    ("status", "answer", "raised"),
    [
        (404, {"error": {"type": "not_found_error", "message": "no"}}, NotFound),
        (409, {"error": {"type": "conflict_error", "message": "no"}}, Conflict),
        (415, {"error": {"type": "unsupported_media_type", "message": "no"}}, UnsupportedMediaType),
        (422, {"error": {"type": "validation_error", "message": "no"}}, ValidationFailed),
        (500, b"<html>", ServiceUnavailable),
        (502, [], ServiceUnavailable),
    ],
)
async def test_refusals(tmp_path: Path, status: int, answer: Any, raised: type[Exception]) -> None:
    artifacts, _ = answering(answer, status)
    text = artifacts.text("s/1", "a1", CALLER, offset=0, limit=1)
    for call in (text, *calls_of(artifacts, tmp_path / "file")):
        with pytest.raises(raised):
            await call
    assert not (tmp_path / "file").exists()


@dataclass
class FakeIngestion:
    """Knowledge bases by id; one that is missing is unknown, one that is None is out of order."""

    chunks: dict[str, list[dict[str, Any]] | None]
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    together: int = 0
    away: int = 0
    """Calls without an answer before the first one with one."""
    _running: int = 0

    async def request(
        self, method: str, owner: str, path: str, identity: Identity, *, body: bytes | None = None, **_: object
    ) -> UpstreamResponse:
        assert (method, owner, identity) == ("POST", "ingestion", CALLER)
        name = path.removeprefix("/internal/knowledge-bases/").removesuffix("/search")
        self.asked.append((name, orjson.loads(body or b"")))
        if self.away:
            self.away -= 1
            raise ServiceUnavailable("restarting")
        self._running += 1
        self.together = max(self.together, self._running)
        await asyncio.sleep(0)
        self._running -= 1
        if name not in self.chunks:
            return UpstreamResponse(404, b"{}", "application/json")
        found = self.chunks[name]
        if found is None:
            raise ServiceUnavailable("away")
        answer = orjson.dumps({"query": "q", "mode": "hybrid", "results": found})
        return UpstreamResponse(200, answer, "application/json")


def passage(text: str, score: float = 0.9) -> dict[str, Any]:
    return {"passage": text, "score": score, "knowledge_base_id": "a", "file_id": "f", "file_name": "f.pdf", "page": 2}


async def retrieve(ingestion: FakeIngestion, query: str, *bases: str | KnowledgeBaseRef) -> Retrieved:
    knowledge = HttpKnowledge(ingestion, CircuitBreaker(RetryPolicy(give_up_after=0.0)))
    searched = [KnowledgeBaseRef(base) if isinstance(base, str) else base for base in bases]
    return await knowledge.retrieve(query, searched, CALLER)


async def test_passages_of_all_knowledge_bases_come_best_first() -> None:
    ingestion = FakeIngestion({"a": [passage("one", 0.9), passage("two", 0.2)], "b": [passage("three", 0.5)]})

    by_keyword = KnowledgeBaseRef("b", top_k=3, mode="keyword", min_score=0.1)
    found = await retrieve(ingestion, " which? ", "a", by_keyword)

    assert [found.passage for found in found.chunks] == ["one", "three", "two"]
    assert found.chunks[0] == Citation("one", 0.9, "a", file_id="f", file_name="f.pdf", page=2)
    assert found.warnings == ()
    assert ingestion.asked == [
        ("a", {"query": "which?"}),
        ("b", {"query": "which?", "top_k": 3, "mode": "keyword", "min_score": 0.1}),
    ]
    assert ingestion.together == 2


async def test_a_deleted_or_unreachable_knowledge_base_is_a_warning() -> None:
    found = await retrieve(FakeIngestion({"a": [passage("one")], "down": None}), "which?", "gone", "a", "down")

    assert [found.passage for found in found.chunks] == ["one"]
    assert found.warnings == (
        "the knowledge base gone no longer exists and wasn't searched",
        "the knowledge base down couldn't be searched",
    )


async def test_a_search_waits_for_a_service_that_restarts() -> None:
    ingestion = FakeIngestion({"a": [passage("one")]}, away=2)
    found = await HttpKnowledge(ingestion).retrieve("which?", (KnowledgeBaseRef("a"),), CALLER)
    assert ([found.passage for found in found.chunks], found.warnings) == (["one"], ())


async def test_a_message_without_text_searches_nothing_and_a_long_one_is_cut() -> None:
    ingestion = FakeIngestion({"a": []})
    await retrieve(ingestion, "  \n", "a")
    assert ingestion.asked == []
    await retrieve(ingestion, "x" * 50_000, "a")
    assert len(ingestion.asked[0][1]["query"]) == 10_000
    await retrieve(ingestion, "which?", "../files")
    assert ingestion.asked[1][0] == "..%2Ffiles", "an id is one part of the path"
