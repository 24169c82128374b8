"""A search in a knowledge base, and the one ranking of the candidates of every engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import pytest

from libs.contracts.errors import NotFound, ServiceUnavailable, ValidationFailed
from libs.contracts.resources.knowledge_bases import ChunkingStrategy, SearchBody, SearchFilters
from services.ingestion.domain.documents import Chunk
from services.ingestion.domain.embedding import EmbeddingRefused, EmbeddingUnavailable, Vectors
from services.ingestion.domain.engines import (
    EVERY_FILE,
    Candidate,
    EngineUnavailable,
    FileSelection,
    Hit,
    IndexedChunk,
    IndexMissing,
    Mode,
    Query,
)
from services.ingestion.domain.knowledge_bases import IndexSettings, KnowledgeBaseNotFound, LiveIndex
from services.ingestion.domain.ranking import ranked
from services.ingestion.use_cases import search
from services.ingestion.use_cases.search import SearchKnowledgeBase
from tests.support.registry import identity


@dataclass
class MemorySearching:
    chunks: dict[tuple[str, str], IndexedChunk]

    async def candidates(self, query: Query) -> list[Candidate]:
        selection, words = query.files, set(query.text.lower().split())
        found = []
        for key, each in self.chunks.items():
            if each.file_id in selection.without or (selection.only is not None and each.file_id not in selection.only):
                continue
            cosine = None if query.vector is None else float(query.vector @ each.vector)
            shared = len(words & set(each.chunk.text.lower().split()))
            if cosine or shared:
                found.append(Candidate(key, each.chunk.index, cosine, None if query.mode == "semantic" else shared))
        return found

    async def hits(self, scores: Mapping[tuple[str, str], float]) -> list[Hit]:
        return [
            Hit(p.id, key[0], p.text, score, p.start, p.end, p.page, p.row)
            for key, score in scores.items()
            if key in self.chunks
            for p in [self.chunks[key].chunk]
        ]


@dataclass
class MemoryEngine:
    """Counts common words and compares vectors, in memory."""

    indexes: dict[str, MemorySearching] = field(default_factory=dict)
    down: bool = False

    @asynccontextmanager
    async def searching(self, index_id: str) -> AsyncIterator[MemorySearching]:
        if self.down:
            raise EngineUnavailable("down")
        if index_id not in self.indexes:
            raise IndexMissing(index_id)
        yield self.indexes[index_id]


@dataclass
class SettledIndexes:
    """Indexes of a company's knowledge bases; each look-up takes the next of `later`."""

    known: dict[tuple[str, str], LiveIndex] = field(default_factory=dict)
    later: list[LiveIndex] = field(default_factory=list)

    async def live_index(self, company_id: str, knowledge_base_id: str) -> LiveIndex:
        found = self.known.get((company_id, knowledge_base_id))
        if found is None:
            raise KnowledgeBaseNotFound
        if self.later:
            self.known[company_id, knowledge_base_id] = self.later.pop(0)
        return found


@dataclass
class NamedFiles:
    named: dict[str, str] = field(default_factory=dict)
    selection: FileSelection = EVERY_FILE
    asked: list[SearchFilters] = field(default_factory=list)

    async def select(self, company_id: str, index_id: str, filters: SearchFilters) -> FileSelection:
        self.asked.append(filters)
        return self.selection

    async def names(self, company_id: str, file_ids: Collection[str]) -> Mapping[str, str]:
        return {file_id: name for file_id, name in self.named.items() if file_id in file_ids}


@dataclass
class WordEmbedder:
    """Texts with equal words have equal vectors."""

    embedded: list[str] = field(default_factory=list)
    failure: Exception | None = None

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if self.failure is not None:
            raise self.failure
        if not all(text.strip() for text in texts):
            raise EmbeddingRefused("Blank text can't be embedded.")
        self.embedded += texts
        vectors = np.zeros((len(texts), 16), np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                vectors[row, sum(word.encode()) % 16] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    async def embedder(self, provider: str, model: str, dimensions: int | None) -> WordEmbedder:
        """It is its own `Embedders`."""
        return self


def live_index(index_id: str | None, *, engine: str = "pgvector", given_up: bool = False) -> LiveIndex:
    settings = IndexSettings(engine, ChunkingStrategy(), "words", "test", 16)
    return LiveIndex("kb", "Handbook", index_id, settings, given_up=given_up)


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
        vectors = await WordEmbedder().embed(list(TEXTS.values()))
        chunks = {
            (name, f"{name}-0"): IndexedChunk(name, Chunk(f"{name}-0", 0, text, 0, len(text), page=3), vector)
            for (name, text), vector in zip(TEXTS.items(), vectors, strict=True)
        }
        self.engine.indexes[index_id] = MemorySearching(chunks)

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
    del office.engine.indexes["index"]
    await office.fill("index-2")
    office.indexes.later = [live_index("index-2")]
    assert await office.found("ferry", top_k=1) == ["ferry.txt"]


async def test_an_index_that_stays_away_is_an_outage(office: Office) -> None:
    del office.engine.indexes["index"]
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


def candidate(name: str, cosine: float | None, words: float | None, *, position: int = 0) -> Candidate:
    return Candidate((name, f"{name}-{position}"), position, cosine, words)


def order(mode: Mode, *found: Candidate) -> list[str]:
    return [file_id for file_id, _ in ranked(mode, found, 10)]


def test_what_both_find_beats_what_one_finds() -> None:
    both, close, worded = candidate("both", 0.8, 5.0), candidate("close", 0.9, 0.0), candidate("worded", 0.1, 6.0)

    assert order("hybrid", close, worded, both)[0] == "both"


def test_a_chunk_that_only_words_found_is_as_close_as_the_last_that_was_found_by_meaning() -> None:
    found = [candidate("near", 0.9, None), candidate("last", 0.4, None), candidate("words", None, 3.0)]

    scores = {file_id: score for (file_id, _), score in ranked("hybrid", found, 10).items()}

    assert scores["last"] == pytest.approx(0.55 * 0.4)
    assert scores["words"] == pytest.approx(0.55 * 0.4 + 0.45)


def test_a_missing_score_and_no_score_are_alike_by_words() -> None:
    """pgvector has both scores of each candidate, Weaviate those of the ways that found it."""
    complete = [candidate("a", 0.9, 0.0), candidate("b", 0.5, 2.0)]
    sparse = [candidate("a", 0.9, None), candidate("b", 0.5, 2.0)]

    assert ranked("hybrid", complete, 10) == ranked("hybrid", sparse, 10)


@pytest.mark.parametrize("words", [0.0, None])
def test_without_any_keyword_meaning_alone_ranks(words: float | None) -> None:
    assert order("hybrid", candidate("b", 0.7, words), candidate("a", 0.8, words)) == ["a", "b"]


def test_more_words_score_higher_and_never_one() -> None:
    scores = list(ranked("keyword", [candidate("a", None, 1.0), candidate("b", None, 1000.0)], 10).values())

    assert scores == pytest.approx([1000 / 1001, 0.5])


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "keyword"])
@pytest.mark.parametrize(("cosine", "words"), [(1.0, 9.0), (-1.0, 0.0), (1.0000001, 3.0), (-0.5, -1e-9), (None, None)])
def test_scores_stay_between_zero_and_one(mode: Mode, cosine: float | None, words: float | None) -> None:
    [score] = ranked(mode, [candidate("a", cosine, words)], 10).values()

    assert 0 <= score <= 1


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "keyword"])
def test_of_nothing_nothing_is_ranked(mode: Mode) -> None:
    assert ranked(mode, [], 10) == {}


def test_cosines_below_zero_keep_their_order() -> None:
    assert order("semantic", candidate("a", -0.4, None), candidate("b", -0.1, None)) == ["b", "a"]


def test_equal_scores_come_in_the_order_of_files_and_positions() -> None:
    found = [candidate("b", 0.5, None), candidate("a", 0.5, None, position=10), candidate("a", 0.5, None, position=9)]

    assert list(ranked("semantic", found, 2)) == [("a", "a-9"), ("a", "a-10")]


@pytest.mark.parametrize("top_k", [1, 10, 50, 100])
def test_a_hybrid_search_has_more_candidates_than_answers(top_k: int) -> None:
    assert Query("ferry", None, "hybrid", top_k).depth >= 2 * top_k
    assert Query("ferry", None, "keyword", top_k).depth == top_k
