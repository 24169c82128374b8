import asyncio
from collections.abc import Sequence
from typing import Any, NoReturn

import pytest

from libs.contracts.errors import NotFound, ServiceUnavailable, ValidationFailed
from libs.contracts.resources.knowledge_bases import SearchBody
from services.ingestion.domain.embedding import EmbeddingUnavailable
from services.ingestion.domain.engines import FileSelection, IndexedChunk
from services.ingestion.use_cases import search
from services.ingestion.use_cases.search import SearchKnowledgeBase
from tests.support.registry import identity
from tests.support.search_fakes import (
    MemoryEngine,
    MemorySearching,
    NamedFiles,
    SettledIndexes,
    WordEmbedder,
    live_index,
)

TEXTS = {"ferry": "the ferry leaves at seven", "tram": "the tram leaves often", "hut": "a hut in the mountains"}
CALLER = identity()


class Office:
    """A company with one knowledge base in which each of the texts is a file."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self.files = NamedFiles({name: f"{name}.txt" for name in TEXTS})
        self.indexes = SettledIndexes({(CALLER.company_id, "kb"): live_index("index")})
        self.embedder = WordEmbedder()
        self.search = SearchKnowledgeBase(self.indexes, self.files, {"pgvector": self.engine}, self.embedder)

    async def fill(self, index_id: str = "index") -> None:
        await self.engine.create_index(index_id, 16)
        vectors = await WordEmbedder().embed(list(TEXTS.values()))
        chunks = [
            IndexedChunk(f"{name}-0", name, 0, text, vector, 0, len(text), page=3)
            for (name, text), vector in zip(TEXTS.items(), vectors, strict=True)
        ]
        await self.engine.write(index_id, chunks)

    async def found(self, query: str, **options: Any) -> Sequence[str | None]:
        body = SearchBody(query=query, **options)
        return [each.file_name for each in (await self.search(CALLER, "kb", body)).results]


@pytest.fixture
async def office() -> Office:
    office = Office()
    await office.fill()
    return office


async def test_answers_with_citations(office: Office) -> None:
    reply = await office.search(CALLER, "kb", SearchBody(query="ferry seven", top_k=1))
    [citation] = reply.results
    assert citation.model_dump(exclude={"score", "artifact_id", "row"}) == {
        "knowledge_base_id": "kb",
        "knowledge_base_name": "Handbook",
        "file_id": "ferry",
        "file_name": "ferry.txt",
        "page": 3,
        "passage": TEXTS["ferry"],
    }
    assert (reply.query, reply.mode, reply.success) == ("ferry seven", "hybrid", True)


async def test_a_keyword_search_embeds_nothing(office: Office) -> None:
    assert await office.found("hut", mode="keyword") == ["hut.txt"]
    assert office.embedder.embedded == []


async def test_of_another_company_or_unknown_is_not_found(office: Office) -> None:
    with pytest.raises(NotFound):
        await office.search(CALLER, "other", SearchBody(query="ferry"))
    stranger = CALLER.model_copy(update={"company_id": "another"})
    with pytest.raises(NotFound):
        await office.search(stranger, "kb", SearchBody(query="ferry"))


async def test_before_the_first_ingestion_nothing_is_found(office: Office) -> None:
    office.indexes.known[CALLER.company_id, "kb"] = live_index(None)
    assert await office.found("ferry") == []


async def test_low_scores_are_left_out(office: Office) -> None:
    every = await office.found("ferry leaves")
    assert len(every) > len(await office.found("ferry leaves", min_score=0.6)) > 0


async def test_the_selected_files_alone_are_searched(office: Office) -> None:
    office.files.selection = FileSelection(only=frozenset({"tram", "hut"}))
    assert await office.found("leaves", mode="keyword", filters={"tags": ["city"]}) == ["tram.txt"]
    assert office.files.asked[-1].tags == ["city"]


async def test_no_selected_file_is_no_result(office: Office) -> None:
    office.files.selection = FileSelection(only=frozenset())
    assert await office.found("ferry") == []


async def test_a_file_deleted_meanwhile_is_not_cited(office: Office) -> None:
    del office.files.named["ferry"]
    assert "tram.txt" in (found := await office.found("ferry tram"))
    assert "ferry.txt" not in found


async def test_a_switch_to_another_index_meanwhile_goes_unnoticed(office: Office) -> None:
    await office.engine.drop_index("index")
    await office.fill("index-2")
    office.indexes.later = [live_index("index-2")]
    assert await office.found("ferry", top_k=1) == ["ferry.txt"]


async def test_an_index_that_stays_away_is_an_outage(office: Office) -> None:
    await office.engine.drop_index("index")
    with pytest.raises(ServiceUnavailable):
        await office.found("ferry")


async def test_an_index_that_was_given_up_is_an_outage_even_where_it_is_there(office: Office) -> None:
    office.indexes.known[CALLER.company_id, "kb"] = live_index("index", given_up=True)
    with pytest.raises(ServiceUnavailable, match="being rebuilt") as outage:
        await office.found("ferry")
    assert outage.value.retry_after


async def test_outages_are_told_as_such(office: Office) -> None:
    office.engine.down = True
    with pytest.raises(ServiceUnavailable) as outage:
        await office.found("ferry")
    assert outage.value.retry_after
    office.engine.down = False
    office.embedder.failure = EmbeddingUnavailable("The embedding server returned status 503.")
    with pytest.raises(ServiceUnavailable, match="503"):
        await office.found("ferry")
    assert await office.found("ferry", mode="keyword") == ["ferry.txt"]


async def test_a_search_ends_before_its_caller_gives_up_and_names_what_does_not_answer(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_SECONDS", 0.05)

    async def hang(*_: object) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(MemorySearching, "candidates", hang)
    with pytest.raises(ServiceUnavailable, match="the search engine pgvector didn't respond in time"):
        await office.found("ferry")
    monkeypatch.setattr(office.embedder, "embed", hang)
    with pytest.raises(ServiceUnavailable, match="the embedding provider words didn't respond in time"):
        await office.found("ferry")


async def test_an_engine_that_is_not_configured_is_named(office: Office) -> None:
    office.indexes.known[CALLER.company_id, "kb"] = live_index("index", engine="weaviate")
    with pytest.raises(ServiceUnavailable, match="weaviate"):
        await office.found("ferry")


async def test_a_query_of_blanks_is_invalid(office: Office) -> None:
    with pytest.raises(ValidationFailed):
        await office.found("   ")
