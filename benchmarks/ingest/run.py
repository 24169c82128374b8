"""`aes bench ingest`: a folder ingested by the service with one and two workers, and by the reference script."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import psutil
import psycopg

from benchmarks.children import Children
from benchmarks.ingest.corpus import corpus_files
from benchmarks.ingest.service import IngestionFailed, ingestion_service
from benchmarks.ingest.usage import Usage, measured
from benchmarks.stack import benchmark_home, postgres_alone, remove
from deploy.local.foreground import start
from deploy.local.home import Home
from deploy.local.kafka import Kafka
from deploy.local.ports import choose_free
from deploy.local.postgres import ADMINISTRATOR, create_database
from deploy.local.processes import MARKER

Say = Callable[[str], None]
SIDES = ("reference", "one worker", "two workers")


@dataclass(frozen=True)
class Label:
    side: str
    round: int
    megabytes: float
    """Size of all files together."""


@dataclass(frozen=True)
class Measured:
    """One side in one round. ``stages``: wall seconds by stage where the side tells them."""

    label: Label
    seconds: float
    files: int
    failed: int
    chunks: int
    usage: Usage
    stages: dict[str, float]


@dataclass(frozen=True)
class _Bench:
    home: Home
    children: Children
    postgres: psutil.Process
    database: str
    kafka: str
    kafka_process: psutil.Process


async def run(folder: Path, *, rounds: int, sides: Sequence[str], say: Say) -> list[Measured]:
    """Runs the benchmark and ends all that it started. Raises ``IngestionFailed``."""
    files = await asyncio.to_thread(corpus_files, folder)
    if not files:
        raise IngestionFailed(f"there is nothing in {folder} that can be ingested")
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    say(f"{len(files):,} files, {megabytes:,.1f} MB")
    results = []
    async with _bench() as bench:
        for number in range(1, rounds + 1):
            for side in sides:
                label = Label(side, number, megabytes)
                reference = side == "reference"
                result = await (_reference(bench, folder, label) if reference else _service(bench, files, label))
                results.append(result)
                say(
                    f"round {number}  {side:<12} {result.files / result.seconds:7.1f} files/s"
                    f"  {result.chunks / result.seconds:7.1f} chunks/s"
                    f"  elsewhere {max(0.0, result.usage.elsewhere / result.seconds):.2f} cores"
                )
    return results


@asynccontextmanager
async def _bench() -> AsyncIterator[_Bench]:
    home = benchmark_home("benchmark-ingest")
    await asyncio.to_thread(remove, home)
    home.create()
    children = Children(f"{home.root}:benchmark", home.log_of("benchmark"))
    children.end_left_behind()
    try:
        async with postgres_alone(home) as stack:
            part = Kafka(
                directory=home.root / "kafka", log=home.log_of("kafka"), cache=home.cache, port=choose_free(),
                controller_port=choose_free(), environment={**os.environ, MARKER: str(home.root)},
            )  # fmt: skip
            running = await start(part, lambda _: None)
            try:
                kafka = psutil.Process(running.process.pid)
                yield _Bench(
                    home, children, stack.processes["postgres"], stack.reference_database, part.bootstrap_servers, kafka
                )
            finally:
                await asyncio.shield(asyncio.to_thread(running.stop))
    finally:
        await asyncio.shield(asyncio.to_thread(remove, home))


async def _reference(bench: _Bench, folder: Path, label: Label) -> Measured:
    arguments = ["benchmarks.ingest.reference", str(folder)]
    async with bench.children.started(arguments, {"REFERENCE_DATABASE_URL": bench.database}) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdout.readline()
        parts = {"script": psutil.Process(process.pid), "postgres": bench.postgres}
        async with measured(parts, frozenset({"script"})) as usage:
            process.stdin.write(b"go\n")
            line = await process.stdout.readline()
        if not line:
            raise IngestionFailed(f"the reference script ended; see {bench.home.log_of('benchmark')}")
    told = orjson.loads(line)
    figures = (told["seconds"], told["files"], told["failed"], told["chunks"])
    return Measured(label, *figures, usage, told["stages"])


async def _service(bench: _Bench, files: Sequence[Path], label: Label) -> Measured:
    workers = SIDES.index(label.side)
    name = f"ingest_{secrets.token_hex(4)}"
    async with await psycopg.AsyncConnection.connect(bench.database, autocommit=True) as connection:
        await create_database(connection, name, owner=ADMINISTRATOR)
    objects = bench.home.root / name
    service = ingestion_service(
        bench.children, kafka=bench.kafka, database_url=bench.database.replace("/reference?", f"/{name}?"),
        objects=objects, workers=workers,
    )  # fmt: skip
    async with service as running:
        ids = await running.client.upload(files)
        collection_id = await running.client.collect(ids)
        parts = {**running.processes, "postgres": bench.postgres, "kafka": bench.kafka_process}
        own = frozenset(each for each in running.processes if each != "api")
        async with measured(parts, own) as usage:
            result = await running.client.ingest(collection_id)
        chunks = await _chunks(bench.database.replace("/reference?", f"/{name}?"))
    await asyncio.to_thread(shutil.rmtree, objects)
    return Measured(label, result.seconds, result.files, result.failed, chunks, usage, {})


async def _chunks(database_url: str) -> int:
    """Reads the stages of the last ingestion; the one before it warmed up."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        found = await connection.execute(
            """SELECT coalesce(sum(chunks), 0) FROM ingestion_items
               WHERE state = 'ingested' AND run_id = (SELECT id FROM ingestion_runs ORDER BY created_at DESC LIMIT 1)"""
        )
        row = await found.fetchone()
    return int(row[0]) if row else 0
