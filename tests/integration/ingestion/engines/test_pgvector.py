"""Behaviour that only the PostgreSQL engine has."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from libs.persistence import Database
from services.ingestion.adapters.engines.bm25 import TermWeights
from services.ingestion.adapters.engines.pgvector import maintenance, searching, selective_words
from services.ingestion.adapters.engines.pgvector.engine import PgvectorEngine
from services.ingestion.adapters.engines.pgvector.selective_words import Frequencies, SelectiveWords
from services.ingestion.domain.engines import EngineUnavailable, IndexedChunk
from services.ingestion.domain.ranking import search
from tests.integration.ingestion.chunks import DIMENSIONS, MOUNTAIN, SEA, chunk, query

INDEX = "index"
# Letters alone, that no ending is cut off: a term each.
WORDS = [f"word{one}{other}" for one in "bcdfgh" for other in "jklmnpqrtv"]


def some(count: int, *, seed: int, words: int) -> list[IndexedChunk]:
    chance = random.Random(seed)
    return [
        chunk(
            f"{seed}-{n}",
            " ".join(chance.choices(WORDS, k=words)),
            [chance.gauss(0, 1) for _ in range(DIMENSIONS)],
            file_id=f"{seed}-{n % 10}",
            position=n,
        )
        for n in range(count)
    ]


async def answers(engine: PgvectorEngine, mode: str) -> list[list[str]]:
    chance = random.Random(1)
    found = []
    for _ in range(20):
        asked = " ".join(chance.choices(WORDS, k=4))
        hits = await search(
            engine,
            INDEX,
            query(asked, [chance.gauss(0, 1) for _ in range(DIMENSIONS)], mode=mode, top_k=10),  # type: ignore[arg-type]
        )
        found.append([hit.chunk_id for hit in hits])
    return found


def overlap(one: Sequence[Sequence[str]], other: Sequence[Sequence[str]]) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(a) for a, b in zip(one, other, strict=True)]))


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
async def test_indexes_find_what_comparing_everything_finds(database: Database, mode: str) -> None:
    plain, indexed = PgvectorEngine(database), PgvectorEngine(database, indexed_from=1)
    await plain.create_index(INDEX, DIMENSIONS)
    await plain.write(INDEX, some(600, seed=1, words=30))
    await plain.finish(INDEX)
    expected = await answers(plain, mode)
    await indexed.finish(INDEX)
    assert await _index_names(database) >= {"ix_passages_1_embedding", "ix_passages_1_terms"}
    assert overlap(expected, await answers(indexed, mode)) > 0.9


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """About how many chunks each keyword search scores; filled as they come. A hundred are many in these tests."""
    found = []

    def noted(words: TermWeights, seen: Frequencies) -> SelectiveWords | None:
        telling = selective_words.selective_words(words, seen)
        found.append(seen.chunks if telling is None else telling.expected)
        return telling

    monkeypatch.setattr(selective_words, "_MOST_CHUNKS", 100)
    monkeypatch.setattr(searching, "selective_words", noted)
    return found


async def frequent(engine: PgvectorEngine) -> list[list[str]]:
    """Answers to words that are in a third of the chunks each, or in more."""
    asked = [" ".join(WORDS[n : n + 1 + n % 3]) for n in range(12)]
    return [
        [hit.chunk_id for hit in await search(engine, INDEX, query(each, mode="keyword", top_k=10))] for each in asked
    ]


async def test_frequent_words_are_found_where_they_are_repeated(database: Database, scored: list[float]) -> None:
    plain, indexed = PgvectorEngine(database), PgvectorEngine(database, indexed_from=1)
    await plain.create_index(INDEX, DIMENSIONS)
    await plain.write(INDEX, some(1_000, seed=1, words=30))
    await plain.finish(INDEX)
    expected = await frequent(plain)
    await indexed.finish(INDEX)
    assert overlap(expected, await frequent(indexed)) > 0.9
    assert scored
    assert max(scored) < 200


async def test_a_large_addition_is_indexed_at_its_end(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_LEAST_APPENDED", 100)
    engine, both = PgvectorEngine(database, indexed_from=1), {"ix_passages_1_embedding", "ix_passages_1_terms"}
    await engine.create_index(INDEX, DIMENSIONS)
    await engine.write(INDEX, some(300, seed=1, words=30))
    await engine.finish(INDEX)
    await engine.write(INDEX, some(60, seed=2, words=30))
    assert await _index_names(database) >= both
    await engine.write(INDEX, some(60, seed=3, words=30))
    assert not await _index_names(database) & both
    assert all(await answers(engine, "hybrid"))
    await engine.finish(INDEX)
    assert await _index_names(database) >= both
    assert await engine.count(INDEX) == 420


async def test_replaced_passages_are_no_additions(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_LEAST_APPENDED", 100)
    engine, both = PgvectorEngine(database, indexed_from=1), {"ix_passages_1_embedding", "ix_passages_1_terms"}
    await engine.create_index(INDEX, DIMENSIONS)
    await engine.write(INDEX, some(300, seed=1, words=30))
    await engine.finish(INDEX)
    await engine.delete_files(INDEX, [f"1-{n}" for n in range(5)])
    await engine.write(INDEX, some(150, seed=2, words=30))
    await engine.finish(INDEX)
    await engine.write(INDEX, some(1, seed=3, words=30))
    assert await _index_names(database) >= both


async def test_an_addition_does_not_wait_for_readers(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_LEAST_APPENDED", 100)
    engine = PgvectorEngine(database, indexed_from=1)
    await engine.create_index(INDEX, DIMENSIONS)
    await engine.write(INDEX, some(300, seed=1, words=30))
    await engine.finish(INDEX)
    async with database.transaction() as reading:
        await reading.execute("SELECT count(*) FROM search.passages_1")
        await engine.write(INDEX, some(150, seed=2, words=30))
        assert all(await answers(engine, "hybrid"))
    assert await engine.count(INDEX) == 450


async def test_passages_written_early_weigh_like_those_written_late(database: Database) -> None:
    once, apart = PgvectorEngine(database), PgvectorEngine(database)
    short, long = some(200, seed=1, words=5), some(200, seed=2, words=80)
    await once.create_index("once", DIMENSIONS)
    await once.write("once", [*short, *long])
    await once.finish("once")
    await apart.create_index("apart", DIMENSIONS)
    await apart.write("apart", short)
    await apart.write("apart", long)
    await apart.finish("apart")
    asked = query(" ".join(WORDS[1:4]), mode="keyword", top_k=50)
    expected = {hit.chunk_id: hit.score for hit in await search(once, "once", asked)}
    found = {hit.chunk_id: hit.score for hit in await search(apart, "apart", asked)}
    shared = expected.keys() & found.keys()
    assert len(shared) > 40
    assert all(found[each] == pytest.approx(expected[each], rel=2 * maintenance._TOLERATED) for each in shared)


async def test_a_narrow_filter_finds_everything_in_spite_of_the_graph(database: Database) -> None:
    engine = PgvectorEngine(database, indexed_from=1)
    await engine.create_index(INDEX, DIMENSIONS)
    await engine.write(INDEX, [*some(500, seed=1, words=10), chunk("far", "lonely", MOUNTAIN, file_id="rare")])
    await engine.finish(INDEX)
    hits = await search(engine, INDEX, query("anything", SEA, mode="semantic", only={"rare"}))
    assert [hit.chunk_id for hit in hits] == ["far"]


async def test_what_was_in_a_dropped_index_is_nowhere(database: Database) -> None:
    engine = PgvectorEngine(database, indexed_from=1)
    await engine.create_index(INDEX, DIMENSIONS)
    await engine.write(INDEX, some(50, seed=1, words=10))
    await engine.finish(INDEX)
    await engine.drop_index(INDEX)
    async with database.connection() as connection:
        tables = await connection.execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'passages%'")
        terms = await connection.execute("SELECT count(*) FROM search.term_frequencies")
        assert (await tables.fetchone(), await terms.fetchone()) == ((0,), (0,))


async def test_rarity_follows_what_was_added(database: Database) -> None:
    engine = PgvectorEngine(database)
    await engine.create_index(INDEX, DIMENSIONS)
    await engine.write(INDEX, [chunk(f"a{n}", "apple", SEA, position=n) for n in range(5)])
    await engine.write(INDEX, [chunk("p", "pear", SEA, position=9)])
    await engine.finish(INDEX)
    assert [h.chunk_id for h in await search(engine, INDEX, query("apple pear", mode="keyword", top_k=1))] == ["p"]
    await engine.write(INDEX, [chunk(f"b{n}", "pear", SEA, position=20 + n) for n in range(40)])
    await engine.finish(INDEX)
    best = await search(engine, INDEX, query("apple pear", mode="keyword", top_k=1))
    assert best[0].text == "apple"


async def test_a_database_that_is_away_is_unavailable(database: Database) -> None:
    engine = PgvectorEngine(database)
    await engine.create_index(INDEX, DIMENSIONS)
    await database.close()
    with pytest.raises(EngineUnavailable):
        await engine.count(INDEX)
    with pytest.raises(EngineUnavailable):
        await engine.write(INDEX, some(1, seed=1, words=3))


@pytest.mark.parametrize("dimensions", [1536, 3072, 5000])
async def test_long_vectors_are_stored_and_found(database: Database, dimensions: int) -> None:
    engine = PgvectorEngine(database, indexed_from=1)
    await engine.create_index(INDEX, dimensions)
    chance = np.random.default_rng(1)
    vectors = [chance.normal(size=dimensions).tolist() for _ in range(20)]
    await engine.write(INDEX, [chunk(f"p{n}", "text", each, position=n) for n, each in enumerate(vectors)])
    await engine.finish(INDEX)
    [hit] = await search(engine, INDEX, query("none", vectors[7], mode="semantic", top_k=1))
    assert hit.chunk_id == "p7"


async def _index_names(database: Database) -> set[str]:
    async with database.connection() as connection:
        found = await connection.execute("SELECT indexname FROM pg_indexes WHERE schemaname = 'search'")
        return {row[0] for row in await found.fetchall()}
