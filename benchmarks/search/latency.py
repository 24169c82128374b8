"""Measures the latency of searches in growing indexes."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from benchmarks.figures import percentile
from benchmarks.search.figures import Filled, Timed
from benchmarks.search.quality import BATCH
from libs.contracts.identifiers import new_id
from services.ingestion.domain.embedding import Embedder
from services.ingestion.domain.engines import Engine, IndexedChunk, Mode, Query
from services.ingestion.domain.ranking import search

_WORDS_IN_A_CHUNK = (120, 360)
_WORDS_IN_A_QUERY = (3, 12)
_RARE_WORDS = 4
_MOST_FREQUENT_WORDS = 4
# How many words count as frequent: each is in a third of the chunks or more.
_FREQUENT = 60
_CHUNKS_IN_A_FILE = 5
_VOCABULARY = 50_000
_SYLLABLES = [first + second for first in "bcdfghjklmnprstvwz" for second in ("a", "el", "io", "urn")]


class Prose:
    """Texts of made-up words, which are as unequally frequent as those of a language; the same in every run."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._words = ["".join(self._random.choices(_SYLLABLES, k=1 + n % 4)) + str(n % 7) for n in range(_VOCABULARY)]
        self._cumulative = list(accumulate(1 / (n + 3) for n in range(_VOCABULARY)))

    def chunk(self) -> str:
        return self._text(*_WORDS_IN_A_CHUNK)

    def query(self) -> str:
        return self._text(*_WORDS_IN_A_QUERY)

    def rare_words(self) -> str:
        return " ".join(self._random.sample(self._words[_VOCABULARY // 10 :], _RARE_WORDS))

    def frequent_words(self) -> str:
        return " ".join(self._random.sample(self._words[:_FREQUENT], self._random.randint(1, _MOST_FREQUENT_WORDS)))

    def _text(self, least: int, most: int) -> str:
        count = self._random.randint(least, most)
        return " ".join(self._random.choices(self._words, cum_weights=self._cumulative, k=count))


async def measure(
    engine: Engine, embedder: Embedder, sizes: Sequence[int], searches: int, say: Callable[[str], None]
) -> tuple[list[Filled], list[Timed]]:
    """Grows one index through the sizes; `searches` of each mode at each of them, one after the other."""
    prose, index_id = Prose(), new_id()
    filled, timed = [], []
    await engine.create_index(index_id, embedder.dimensions)
    try:
        written = 0
        for size in sorted(sizes):
            filled.append(await _grow(engine, embedder, index_id, prose, written, size))
            written = size
            for search, (mode, text) in _searches(prose).items():
                times = [await _time(engine, embedder, index_id, text(), mode) for _ in range(searches)]
                timed.append(Timed(engine.name, size, search, percentile(times, 50), percentile(times, 95)))
                say(f"{engine.name} {size} chunks {search}: p50 {timed[-1].p50:.1f} ms, p95 {timed[-1].p95:.1f} ms")
    finally:
        await engine.drop_index(index_id)
    return filled, timed


def _searches(prose: Prose) -> dict[str, tuple[Mode, Callable[[], str]]]:
    return {
        "semantic": ("semantic", prose.query),
        "keyword": ("keyword", prose.query),
        "keyword, rare words": ("keyword", prose.rare_words),
        "keyword, frequent words": ("keyword", prose.frequent_words),
        "hybrid": ("hybrid", prose.query),
        "hybrid, frequent words": ("hybrid", prose.frequent_words),
    }


async def _grow(engine: Engine, embedder: Embedder, index_id: str, prose: Prose, start: int, end: int) -> Filled:
    writing = 0.0
    for batch in _batches(start, end):
        texts = [prose.chunk() for _ in batch]
        vectors = await embedder.embed(texts)
        passages = [
            IndexedChunk(
                f"chunk-{n}", f"file-{n // _CHUNKS_IN_A_FILE}", n % _CHUNKS_IN_A_FILE, text, vector, 0, len(text)
            )
            for n, text, vector in zip(batch, texts, vectors, strict=True)
        ]
        began = time.perf_counter()
        await engine.write(index_id, passages)
        writing += time.perf_counter() - began
    began = time.perf_counter()
    await engine.finish(index_id)
    return Filled(engine.name, end, end - start, writing, time.perf_counter() - began)


def _batches(start: int, end: int) -> Iterator[range]:
    return (range(first, min(first + BATCH, end)) for first in range(start, end, BATCH))


async def _time(engine: Engine, embedder: Embedder, index_id: str, text: str, mode: Mode) -> float:
    """Milliseconds, the embedding of the query included."""
    began = time.perf_counter()
    vector = None if mode == "keyword" else (await embedder.embed([text]))[0]
    await search(engine, index_id, Query(text, vector, mode, 10))
    return 1000 * (time.perf_counter() - began)
