"""`aes bench ingest`: a folder ingested by the service, with one and two workers, and by a handwritten script.

The script is a single process that reads, chunks, embeds and stores a folder without checkpoints: `python -m
benchmarks.ingest FOLDER`, with the database's URL in REFERENCE_DATABASE_URL. Service and script use the same embedding
model, and produce the same chunks.
"""

import asyncio
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
from aes_client import AsyncClient

from benchmarks.machine import cpu_seconds, machine_seconds, resident_bytes
from benchmarks.report import Record, Result, paired_ratio
from benchmarks.stack import Children, Say, own_home, postgres_alone, stack_postgres, whole_stack
from deploy.local.errors import StackError
from deploy.local.home import Home
from libs.contracts.resources.knowledge_bases import ChunkingStrategy
from services.ingestion.adapters.chunking.cut import cut
from services.ingestion.domain.documents import ParsedDocument

SIDES: Final = ("reference", "one worker", "two workers")
TARGETS: Final = {"one worker": 0.9, "two workers": 1.3}
_CHUNKING: Final = ChunkingStrategy(chunk_size=2000, chunk_overlap=0, split_by="character")
_EXTENSIONS: Final = frozenset({".md", ".html", ".txt", ".csv", ".json", ".pdf", ".docx", ".xlsx"})
_LARGEST: Final = 50 * 1024 * 1024
_COLLECTED_AT_ONCE: Final = 1_000
_STORED_AT_ONCE: Final = 512
_SAMPLE_SECONDS: Final = 0.25
# The service loads models and starts parsing processes when first needed. The reference has both before it starts.
_WARM_UP_FILES: Final = 48
_CHUNKS: Final = """
    SELECT coalesce(sum(chunks), 0) FROM ingestion_items
    WHERE state = 'ingested' AND run_id = (SELECT id FROM ingestion_runs ORDER BY created_at DESC LIMIT 1)
"""
_TABLES: Final = """
    CREATE EXTENSION IF NOT EXISTS vector;
    DROP TABLE IF EXISTS chunks;
    CREATE TABLE chunks (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, file text NOT NULL, position integer NOT NULL,
        content text NOT NULL, words tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED,
        embedding vector(256) NOT NULL
    );
    CREATE INDEX ON chunks USING hnsw (embedding vector_ip_ops);
    CREATE INDEX ON chunks USING gin (words);
"""


async def run(folder: Path, rounds: int, sides: Sequence[str], say: Say) -> Result:
    if unknown := set(sides) - set(SIDES):
        raise ValueError(f"unknown side {', '.join(sorted(unknown))}; use any of {', '.join(SIDES)}")
    files = await asyncio.to_thread(corpus_files, folder)
    if not files:
        raise StackError(f"{folder} contains no files that can be ingested.")
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    say(f"{len(files):,} files, {megabytes:,.1f} MB")
    results = []
    for number in range(1, rounds + 1):
        for side in sides:
            async with own_home("ingest") as (home, children):
                reference = side == "reference"
                measured = _reference(home, children, folder) if reference else _service(home, files, SIDES.index(side))
                found = await measured
            results.append({"label": {"side": side, "round": number, "megabytes": megabytes}, **found})
            say(f"round {number}  {side:<12} {found['files'] / found['seconds']:7.1f} files/s")
    return result(results)


def corpus_files(folder: Path) -> list[Path]:
    """Returns all files below a folder that the service accepts."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in _EXTENSIONS and path.is_file() and 0 < path.stat().st_size <= _LARGEST
    )


def result(results: Sequence[dict[str, Any]]) -> Result:
    files_per_second = {
        (each["label"]["side"], each["label"]["round"]): each["files"] / each["seconds"] for each in results
    }
    ratios = {side: paired_ratio(files_per_second, side) for side in TARGETS}
    speed: list[Record] = []
    cpu: list[Record] = []
    for each in results:
        of = {"side": each["label"]["side"], "round": each["label"]["round"]}
        counts = {name: each[name] for name in ("seconds", "files", "failed", "chunks")}
        rates = {f"{name}/s": each[name] / each["seconds"] for name in ("files", "chunks")}
        speed.append({**of, **counts, **rates, "peak MB": each["usage"]["peak_bytes"] / 1e6})
        cpu.append({**of, **each["usage"]["cpu"], "elsewhere": each["usage"]["elsewhere"], **each["stages"]})
    goals: list[Record] = [{"side": side, "times": ratios[side], "goal": goal} for side, goal in TARGETS.items()]
    tables = {
        "Time from the command to the end of the ingestion": speed,
        "CPU seconds, and the script's seconds by stage": cpu,
        "Targets: files/s relative to the reference": goals,
    }
    return Result({"results": results, "ratios": ratios, "targets": TARGETS}, tables)


async def _reference(home: Home, children: Children, folder: Path) -> dict[str, Any]:
    async with postgres_alone(home) as stack:
        environment = {"REFERENCE_DATABASE_URL": stack.reference_database}
        async with children.started(["benchmarks.ingest", str(folder)], environment) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdout.readline()
            script = psutil.Process(process.pid)
            async with _used({"script": script, **stack.processes}, [script]) as usage:
                process.stdin.write(b"go\n")
                line = await process.stdout.readline()
            if not line:
                raise StackError("The reference script ended unexpectedly.", f"See {children.log}")
    return {**json.loads(line), "usage": usage}


async def _service(home: Home, files: Sequence[Path], workers: int) -> dict[str, Any]:
    settings = {"AES_REPLICAS": f"ingestion={workers}", "AES_INGESTION_PARSE_AHEAD": "false"}
    async with whole_stack(home, settings=settings) as stack, AsyncClient(stack.base_url, stack.api_key) as client:
        warm_up = home.root / "warm-up"
        warm_up.mkdir()
        for number in range(_WARM_UP_FILES * workers):
            (warm_up / f"{number}.html").write_text(f"<html><body><h1>{number}</h1><p>Warm up.</p></body></html>")
        await _ingested(client, await _collected(client, sorted(warm_up.iterdir())))
        collection_id = await _collected(client, files)
        own = [process for name, process in stack.processes.items() if name.startswith("ingestion-streams")]
        async with _used(stack.processes, own) as usage:
            seconds, base = await _ingested(client, collection_id)
        with psycopg.connect(stack_postgres(home).url("ingestion")) as connection:
            [[chunks]] = connection.execute(_CHUNKS).fetchall()
    counts = {"files": base.datasource_count, "failed": len(base.failed_datasources), "chunks": int(chunks)}
    return {"seconds": seconds, **counts, "usage": usage, "stages": {}}


async def _collected(client: AsyncClient, files: Sequence[Path]) -> str:
    ids = [each.file.id async for each in client.files.upload_many(files) if each.file is not None]
    collection = await client.collections.create(name="Bench")
    for first in range(0, len(ids), _COLLECTED_AT_ONCE):
        await client.collections.add_files(collection.id, ids[first : first + _COLLECTED_AT_ONCE])
    return collection.id


async def _ingested(client: AsyncClient, collection_id: str) -> tuple[float, Any]:
    """Ingests a collection. Returns the seconds that this took, and the knowledge base."""
    began = datetime.now(UTC)
    chunking: Any = _CHUNKING.model_dump()
    made = await client.knowledge_bases.create(
        name="Bench", collection_ids=[collection_id], chunking_strategy=chunking
    )  # fmt: skip
    base = await client.knowledge_bases.wait(made.id)
    return (base.updated_at - began).total_seconds(), base


@asynccontextmanager
async def _used(parts: dict[str, psutil.Process], in_memory: Sequence[psutil.Process]) -> AsyncIterator[dict[str, Any]]:
    """Yields the CPU seconds of each process and of the rest of the machine, and the peak memory of ``in_memory``."""
    usage: dict[str, Any] = {"cpu": {}, "peak_bytes": 0, "elsewhere": 0.0}

    async def sample() -> None:
        while True:
            usage["peak_bytes"] = max(usage["peak_bytes"], sum(resident_bytes(process) for process in in_memory))
            await asyncio.sleep(_SAMPLE_SECONDS)

    before, machine = cpu_seconds(parts), machine_seconds()
    sampling = asyncio.create_task(sample())
    try:
        yield usage
    finally:
        sampling.cancel()
    usage["cpu"] = {name: after - before[name] for name, after in cpu_seconds(parts).items()}
    usage["elsewhere"] = max(0.0, machine_seconds() - machine - sum(usage["cpu"].values()))


class Reference:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        from kreuzberg import ExtractionConfig
        from wordllama import WordLlama  # type: ignore[import-untyped]

        self._connection = connection
        # No cache, which would spare the second round its parsing.
        self._config = ExtractionConfig(output_format="markdown", use_cache=False)
        package = find_spec("wordllama")
        assert package is not None
        assert package.origin is not None
        self._model = WordLlama.load(cache_dir=Path(package.origin).parent, disable_download=True)
        self.stages: defaultdict[str, float] = defaultdict(float)
        self.chunks = self.files = self.failed = 0

    def ingest(self, folder: Path) -> None:
        rows: list[tuple[str, int, str]] = []
        for path in corpus_files(folder):
            rows += self._rows(path)
            while len(rows) >= _STORED_AT_ONCE:
                self._store(rows[:_STORED_AT_ONCE])
                del rows[:_STORED_AT_ONCE]
        if rows:
            self._store(rows)

    def _rows(self, path: Path) -> list[tuple[str, int, str]]:
        from kreuzberg import extract_file_sync

        began = time.perf_counter()
        try:
            text = extract_file_sync(path, config=self._config).content
        except Exception as problem:
            print(f"{path}: {problem}", file=sys.stderr)
            self.failed += 1
            return []
        parsed = time.perf_counter()
        rows = [(str(path), chunk.index, chunk.text) for chunk in cut(ParsedDocument(text), _CHUNKING, str(path))]
        self.files += 1
        self.stages["parsing"] += parsed - began
        self.stages["chunking"] += time.perf_counter() - parsed
        return rows

    def _store(self, rows: list[tuple[str, int, str]]) -> None:
        began = time.perf_counter()
        vectors = self._model.embed([content for _, _, content in rows], norm=True)
        embedded = time.perf_counter()
        statement = "COPY chunks (file, position, content, embedding) FROM STDIN (FORMAT BINARY)"
        with self._connection.transaction(), self._connection.cursor().copy(statement) as copy:
            copy.set_types(["text", "int4", "text", "vector"])
            for (file, position, content), vector in zip(rows, vectors, strict=True):
                copy.write_row((file, position, content.replace("\0", ""), vector))
        self.chunks += len(rows)
        self.stages["embedding"] += embedded - began
        self.stages["indexing"] += time.perf_counter() - embedded


def main() -> None:
    from pgvector.psycopg import register_vector

    with psycopg.connect(os.environ["REFERENCE_DATABASE_URL"], autocommit=True) as connection:
        connection.execute(_TABLES)
        register_vector(connection)
        reference = Reference(connection)
        # Loads the model before the clock starts, as a worker does.
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.perf_counter()
        reference.ingest(Path(sys.argv[1]))
        seconds, counts = time.perf_counter() - began, ("files", "failed", "chunks")
        found = {"seconds": seconds, **{name: getattr(reference, name) for name in counts}, "stages": reference.stages}
        print(json.dumps(found), flush=True)
        # Waits to be stopped, because the CPU time of process and connection is read at the end.
        sys.stdin.readline()


if __name__ == "__main__":
    main()
