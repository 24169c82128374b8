"""`aes bench search`: the quality and latency of the search engines, each on its own server."""

import asyncio
import csv
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate
from math import log2
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import orjson

from benchmarks.report import Record, Result, percentile
from benchmarks.stack import Say, own_home, postgres_alone
from deploy.images.fallback_images.go_programs import built
from deploy.local.foreground import start
from deploy.local.home import Home
from deploy.local.processes import MARKER
from libs.contracts.identifiers import new_id
from libs.contracts.resources.knowledge_bases import ChunkingStrategy
from libs.persistence import Database, migrate
from services.ingestion.adapters.chunking.cut import cut
from services.ingestion.adapters.embeddings.static import StaticEmbedder
from services.ingestion.adapters.engines.pgvector.engine import PgvectorEngine
from services.ingestion.adapters.engines.weaviate.connection import Address
from services.ingestion.adapters.engines.weaviate.engine import WeaviateEngine
from services.ingestion.bootstrap import MIGRATIONS
from services.ingestion.domain.documents import Chunk, ParsedDocument
from services.ingestion.domain.embedding import Embedder
from services.ingestion.domain.engines import Engine, IndexedChunk, Mode, Query
from services.ingestion.domain.ranking import search
from tests.servers.go import WEAVIATE
from tests.servers.weaviate import WeaviateServer

SHIPPED: Final = Path(__file__).parent / "skarholm"
SIZES: Final = (1_000, 100_000)
_DEPTH: Final = 10
# Several chunks of a document may rank above the tenth document.
_CHUNKS_FOR_A_DOCUMENT: Final = 5
_BATCH: Final = 256
_CORPORA: Final = ("corpus.jsonl", "collection.jsonl", "documents.jsonl", "corpus.tsv", "collection.tsv")
_QUERIES: Final = ("queries.jsonl", "topics.jsonl", "queries.tsv", "topics.tsv")
_JUDGEMENTS: Final = ("qrels/test.tsv", "qrels/dev.tsv", "qrels/train.tsv", "qrels", "*.qrel*", "qrels*")


async def run(
    engines: Sequence[str], collections: Sequence[Path], sizes: Sequence[int], searches: int, say: Say
) -> Result:
    labelled = [Labelled.read(path) for path in collections]
    embedder = StaticEmbedder()
    found: dict[str, list[dict[str, Any]]] = {"quality": [], "filling": [], "latency": []}
    async with own_home("search") as (home, _):
        for name in engines:
            async with (_pgvector if name == "pgvector" else _weaviate)(home) as engine:
                for collection in labelled:
                    say(f"{name}: {collection.name}, {len(collection.queries)} queries")
                    of = {"engine": name, "collection": collection.name}
                    ranked = await rank(engine, embedder, collection)
                    found["quality"] += [{**of, "mode": mode, "quality": each} for mode, each in ranked.items()]
                filling, latency = await _time_searches(engine, embedder, sizes, searches, say)
                found["filling"] += filling
                found["latency"] += latency
    return Result(found, {name: [_flat(each) for each in records] for name, records in found.items() if records})


def _flat(record: Record) -> Record:
    return {**{name: value for name, value in record.items() if name != "quality"}, **record.get("quality", {})}


@asynccontextmanager
async def _pgvector(home: Home) -> AsyncIterator[Engine]:
    async with postgres_alone(home) as stack:
        await asyncio.to_thread(migrate, stack.reference_database, MIGRATIONS)
        database = Database(stack.reference_database, name="bench-search")
        await database.open()
        try:
            yield PgvectorEngine(database)
        finally:
            await database.close()


@asynccontextmanager
async def _weaviate(home: Home) -> AsyncIterator[Engine]:
    await asyncio.to_thread(built, WEAVIATE)
    server = WeaviateServer(home.root / "weaviate", {**os.environ, MARKER: str(home.root)})
    running = await start(server, lambda _: None)
    engine = WeaviateEngine(Address(server.url, server.grpc_port))
    try:
        yield engine
    finally:
        await engine.close()
        await asyncio.shield(asyncio.to_thread(running.stop))


@dataclass(frozen=True)
class Labelled:
    """A labeled collection: documents, queries, and judgments of the documents' relevance."""

    name: str
    documents: dict[str, str]
    queries: dict[str, str]
    judgements: dict[str, dict[str, int]]

    @classmethod
    def read(cls, directory: Path) -> "Labelled":
        """Reads a collection in BEIR or TREC format. Raises ValueError if the collection is invalid.

        Skips queries without judgments, and documents without text.
        """
        documents = dict(_texts(_find(directory, _CORPORA, "documents")))
        judgements = _judgements(_find(directory, _JUDGEMENTS, "judgements"))
        texts = _texts(_find(directory, _QUERIES, "queries"))
        queries = {query: text for query, text in texts if query in judgements}
        if not queries:
            raise ValueError(f"no query in {directory} has relevance judgments")
        return cls(directory.name, documents, queries, {query: judgements[query] for query in queries})


def _find(directory: Path, patterns: tuple[str, ...], what: str) -> Path:
    for pattern in patterns:
        for path in sorted(directory.glob(pattern)):
            if path.is_file():
                return path
    raise ValueError(f"{directory} has no {what}: none of {', '.join(patterns)}")


def _texts(file: Path) -> Iterator[tuple[str, str]]:
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        if not line.strip():
            continue
        if file.suffix == ".jsonl":
            fields = orjson.loads(line)
            identity = str(next(fields[name] for name in ("_id", "id", "docid", "qid") if name in fields))
            parts = [fields.get(name) or "" for name in ("title", "text", "contents", "query")]
        else:
            identity, *parts = line.split("\t")
        if text := "\n".join(part.strip() for part in parts if part.strip()):
            yield identity, text


def _judgements(file: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        fields = next(csv.reader([line.strip()], delimiter="\t")) if "\t" in line else line.split()
        try:
            # TREC has an iteration number between query and document; BEIR doesn't.
            query, document, grade = fields[0], fields[-2], int(float(fields[-1]))
        except (ValueError, IndexError):
            if fields and number > 1:
                raise ValueError(f"{file}, line {number}: invalid judgement") from None
            continue
        found.setdefault(query, {})[document] = grade
    return found


async def rank(engine: Engine, embedder: Embedder, labelled: Labelled) -> dict[Mode, dict[str, float]]:
    """Measures the retrieval quality of an engine on a collection, with the service's chunks and embeddings."""
    settings = ChunkingStrategy()
    async with _index(engine, embedder) as index_id:
        chunks = [
            (identity, chunk)
            for identity, text in labelled.documents.items()
            for chunk in cut(ParsedDocument(text), settings, identity)
        ]
        await _write(engine, embedder, index_id, chunks)
        await engine.finish(index_id)
        found: dict[Mode, dict[str, float]] = {}
        for mode in ("semantic", "keyword", "hybrid"):
            rankings = {}
            for query, text in labelled.queries.items():
                asked = await _query(embedder, text, mode, _DEPTH * _CHUNKS_FOR_A_DOCUMENT)
                rankings[query] = list(dict.fromkeys(hit.file_id for hit in await search(engine, index_id, asked)))
            found[mode] = quality(rankings, labelled.judgements)
    return found


@asynccontextmanager
async def _index(engine: Engine, embedder: Embedder) -> AsyncIterator[str]:
    index_id = new_id()
    await engine.create_index(index_id, embedder.dimensions)
    try:
        yield index_id
    finally:
        await engine.drop_index(index_id)


async def _write(engine: Engine, embedder: Embedder, index_id: str, chunks: Sequence[tuple[str, Chunk]]) -> float:
    """Returns the seconds spent on writing, without embedding."""
    seconds = 0.0
    for first in range(0, len(chunks), _BATCH):
        batch = chunks[first : first + _BATCH]
        vectors = await embedder.embed([chunk.text for _, chunk in batch])
        embedded = [IndexedChunk(*each, vector) for each, vector in zip(batch, vectors, strict=True)]
        began = time.perf_counter()
        await engine.write(index_id, embedded)
        seconds += time.perf_counter() - began
    return seconds


async def _query(embedder: Embedder, text: str, mode: Mode, limit: int) -> Query:
    return Query(text, None if mode == "keyword" else (await embedder.embed([text]))[0], mode, limit)


def quality(rankings: Mapping[str, Sequence[str]], judgements: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    """Returns the mean of each measure over the queries with a relevant document, as trec_eval does.

    ``rankings`` contains documents by query, best first. ``judgements`` contains grades by query and document. A grade
    above 0 means relevant.
    """
    judged = {query: grades for query, grades in judgements.items() if any(grade > 0 for grade in grades.values())}
    if not judged:
        raise ValueError("No query has a relevant document.")
    each = [(rankings.get(query, ()), grades) for query, grades in judged.items()]
    measures = {"ndcg": ndcg, "recall": recall, "reciprocal_rank": reciprocal_rank}
    means = {name: fmean(measure(*one) for one in each) for name, measure in measures.items()}
    return {**means, "queries": len(each)}


def ndcg(ranking: Sequence[str], grades: Mapping[str, int]) -> float:
    best = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    return _gain([max(0, grades.get(each, 0)) for each in ranking]) / _gain(best)


def recall(ranking: Sequence[str], grades: Mapping[str, int]) -> float:
    relevant = {each for each, grade in grades.items() if grade > 0}
    return len(relevant.intersection(ranking[:_DEPTH])) / len(relevant)


def reciprocal_rank(ranking: Sequence[str], grades: Mapping[str, int]) -> float:
    return next((1 / rank for rank, each in enumerate(ranking, 1) if grades.get(each, 0) > 0), 0.0)


def _gain(grades: Sequence[int]) -> float:
    return sum(grade / log2(rank + 1) for rank, grade in enumerate(grades[:_DEPTH], 1))


class Prose:
    """Generates random words with the frequencies of natural language. Every run generates the same text."""

    _COUNT = 50_000
    _SYLLABLES = [first + second for first in "bcdfghjklmnprstvwz" for second in ("a", "el", "io", "urn")]
    # Each of the most frequent words is in at least a third of the chunks.
    _FREQUENT = 60

    def __init__(self) -> None:
        self._random = random.Random(7)
        self._words = [
            "".join(self._random.choices(self._SYLLABLES, k=1 + n % 4)) + str(n % 7) for n in range(self._COUNT)
        ]
        self._cumulative = list(accumulate(1 / (n + 3) for n in range(self._COUNT)))

    def chunk(self) -> str:
        return self._text(120, 360)

    def query(self) -> str:
        return self._text(3, 12)

    def rare_words(self) -> str:
        return " ".join(self._random.sample(self._words[self._COUNT // 10 :], 4))

    def frequent_words(self) -> str:
        return " ".join(self._random.sample(self._words[: self._FREQUENT], self._random.randint(1, 4)))

    def _text(self, least: int, most: int) -> str:
        count = self._random.randint(least, most)
        return " ".join(self._random.choices(self._words, cum_weights=self._cumulative, k=count))


async def _time_searches(
    engine: Engine, embedder: Embedder, sizes: Sequence[int], searches: int, say: Say
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Grows an index to each size, and then times ``searches`` searches of each kind."""
    prose, written = Prose(), 0
    kinds: dict[str, tuple[Mode, Callable[[], str]]] = {
        "semantic": ("semantic", prose.query),
        "keyword": ("keyword", prose.query),
        "keyword, rare words": ("keyword", prose.rare_words),
        "keyword, frequent words": ("keyword", prose.frequent_words),
        "hybrid": ("hybrid", prose.query),
        "hybrid, frequent words": ("hybrid", prose.frequent_words),
    }
    filled, timed = [], []
    async with _index(engine, embedder) as index_id:
        for size in sorted(sizes):
            filled.append(await _grow(engine, embedder, index_id, prose, range(written, size)))
            written = size
            for kind, (mode, text) in kinds.items():
                times = []
                for _ in range(searches):
                    wanted = text()
                    began = time.perf_counter()
                    await search(engine, index_id, await _query(embedder, wanted, mode, _DEPTH))
                    times.append(1000 * (time.perf_counter() - began))
                p50, p95 = percentile(times, 50), percentile(times, 95)
                timed.append({"engine": engine.name, "chunks": size, "search": kind, "p50": p50, "p95": p95})
                say(f"{engine.name} {size} chunks {kind}: p50 {p50:.1f} ms, p95 {p95:.1f} ms")
    return filled, timed


async def _grow(engine: Engine, embedder: Embedder, index_id: str, prose: Prose, numbers: range) -> dict[str, Any]:
    """Adds chunks to an index. Returns the seconds for writing, and for finishing the index."""
    writing = 0.0
    for first in range(numbers.start, numbers.stop, _BATCH):
        batch = [(n, prose.chunk()) for n in range(first, min(first + _BATCH, numbers.stop))]
        chunks = [(f"file-{n // 5}", Chunk(f"chunk-{n}", n % 5, text, 0, len(text))) for n, text in batch]
        writing += await _write(engine, embedder, index_id, chunks)
    began = time.perf_counter()
    await engine.finish(index_id)
    finishing = time.perf_counter() - began
    return {
        "engine": engine.name, "chunks": numbers.stop, "written": len(numbers), "writing": writing,
        "finishing": finishing,
    }  # fmt: skip
