import asyncio
from dataclasses import dataclass, field
from typing import Any

import orjson

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identity import Identity
from libs.retry import CircuitBreaker, RetryPolicy
from services.runtime.adapters.internal_api.knowledge import HttpKnowledge
from services.runtime.domain.conversation import Citation
from services.runtime.domain.knowledge import KnowledgeBaseRef
from tests.support.agent_fakes import CALLER


@dataclass
class Answer:
    status: int
    body: bytes


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
    ) -> Answer:
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
            return Answer(404, b"{}")
        found = self.chunks[name]
        if found is None:
            raise ServiceUnavailable("away")
        return Answer(200, orjson.dumps({"query": "q", "mode": "hybrid", "results": found}))


def passage(text: str, score: float) -> dict[str, Any]:
    return {"passage": text, "score": score, "knowledge_base_id": "a", "file_id": "f", "file_name": "f.pdf", "page": 2}


async def test_passages_of_all_knowledge_bases_come_best_first() -> None:
    ingestion = FakeIngestion({"a": [passage("one", 0.9), passage("two", 0.2)], "b": [passage("three", 0.5)]})
    searched = (KnowledgeBaseRef("a"), KnowledgeBaseRef("b", top_k=3, mode="keyword", min_score=0.1))

    found = await HttpKnowledge(ingestion).retrieve(" which? ", searched, CALLER)

    assert [found.passage for found in found.chunks] == ["one", "three", "two"]
    assert found.chunks[0] == Citation("one", 0.9, "a", file_id="f", file_name="f.pdf", page=2)
    assert found.warnings == ()
    assert ingestion.asked == [
        ("a", {"query": "which?"}),
        ("b", {"query": "which?", "top_k": 3, "mode": "keyword", "min_score": 0.1}),
    ]
    assert ingestion.together == 2


async def test_a_deleted_or_unreachable_knowledge_base_is_a_warning() -> None:
    ingestion = FakeIngestion({"a": [passage("one", 0.9)], "down": None})
    searched = tuple(KnowledgeBaseRef(name) for name in ("gone", "a", "down"))

    knowledge = HttpKnowledge(ingestion, CircuitBreaker(RetryPolicy(give_up_after=0.0)))
    found = await knowledge.retrieve("which?", searched, CALLER)

    assert [found.passage for found in found.chunks] == ["one"]
    assert found.warnings == (
        "the knowledge base gone no longer exists and wasn't searched",
        "the knowledge base down couldn't be searched",
    )


async def test_a_service_that_restarts_is_waited_for() -> None:
    ingestion = FakeIngestion({"a": [passage("one", 0.9)]}, away=2)
    found = await HttpKnowledge(ingestion).retrieve("which?", (KnowledgeBaseRef("a"),), CALLER)
    assert ([found.passage for found in found.chunks], found.warnings) == (["one"], ())


async def test_a_message_without_text_searches_nothing_and_a_long_one_is_cut() -> None:
    ingestion = FakeIngestion({"a": []})
    knowledge = HttpKnowledge(ingestion)
    await knowledge.retrieve("  \n", (KnowledgeBaseRef("a"),), CALLER)
    assert ingestion.asked == []
    await knowledge.retrieve("x" * 50_000, (KnowledgeBaseRef("a"),), CALLER)
    assert len(ingestion.asked[0][1]["query"]) == 10_000


async def test_an_id_is_one_part_of_the_path() -> None:
    ingestion = FakeIngestion({})
    await HttpKnowledge(ingestion).retrieve("which?", (KnowledgeBaseRef("../files"),), CALLER)
    assert ingestion.asked[0][0] == "..%2Ffiles"
