"""Behaviour that only the Weaviate engine has."""

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from deploy.local.foreground import start
from deploy.local.processes import MARKER
from libs.contracts.identifiers import new_id
from services.ingestion.adapters.engines.weaviate.connection import Address
from services.ingestion.adapters.engines.weaviate.engine import WeaviateEngine
from services.ingestion.domain.engines import EngineUnavailable, IndexMissing
from services.ingestion.domain.ranking import search
from tests.servers.go import WEAVIATE, cached
from tests.servers.weaviate import WeaviateServer
from tests.support.chunks import DIMENSIONS, SEA, chunk, query
from tests.support.waiting import until

T = TypeVar("T")
PASSAGES = [chunk(f"p{n}", f"ferry number {n}", SEA, file_id=f"f{n % 3}", position=n) for n in range(50)]


def quiet(_: str) -> None:
    """Ignores reports of progress."""


@pytest.mark.crash("Weaviate")
@pytest.mark.slow
async def test_a_killed_server_is_an_outage_and_loses_nothing_and_an_emptied_one_is_filled_anew(tmp_path: Path) -> None:
    cached(WEAVIATE)
    server = WeaviateServer(tmp_path, {**os.environ, MARKER: str(tmp_path)})
    engine = WeaviateEngine(Address(server.url, server.grpc_port, query_timeout=3, write_timeout=3))
    index_id = new_id()
    running = await start(server, quiet)
    try:
        await _until_answered(lambda: engine.create_index(index_id, DIMENSIONS))
        await _until_answered(lambda: engine.write(index_id, PASSAGES))
        os.kill(running.process.pid, signal.SIGKILL)
        running.process.wait()
        for call in (
            engine.write(index_id, PASSAGES),
            search(engine, index_id, query("ferry", SEA)),
            engine.count(index_id),
            engine.ping(),
        ):
            with pytest.raises(EngineUnavailable):
                await call
        running = await start(server, quiet)
        await _until_answered(lambda: engine.write(index_id, PASSAGES))
        await _until_answered(lambda: engine.finish(index_id))
        assert await _until_answered(lambda: engine.count(index_id)) == len(PASSAGES)
        everything = query("ferry", mode="keyword", top_k=100)
        assert len(await _until_answered(lambda: search(engine, index_id, everything))) == len(PASSAGES)
        running.stop()
        await asyncio.to_thread(shutil.rmtree, tmp_path / "data")
        running = await start(server, quiet)
        # An emptied server has no index any more; new ones are made as soon as that was noticed.
        assert await _until_answered(lambda: engine.existing([index_id])) == set()
        await _until_answered(lambda: engine.drop_index(index_id))
        with pytest.raises(IndexMissing):
            await _until_answered(lambda: engine.write(index_id, PASSAGES))
        with suppress(IndexMissing):
            await _until_answered(lambda: engine.create_index(index_id, DIMENSIONS))
        await _until_answered(lambda: engine.create_index(index_id, DIMENSIONS))
        await _until_answered(lambda: engine.write(index_id, PASSAGES))
        assert await _until_answered(lambda: engine.count(index_id)) == len(PASSAGES)
    finally:
        await engine.close()
        running.stop()


@pytest.mark.crash("Weaviate")
@pytest.mark.outage("the search engine")
async def test_a_server_that_was_never_there_is_an_outage() -> None:
    engine = WeaviateEngine(Address("http://127.0.0.1:9", 10))
    with pytest.raises(EngineUnavailable):
        await engine.ping()
    await engine.close()


async def test_keyword_scores_are_right_once_finished(weaviate: WeaviateEngine) -> None:
    index_id = new_id()
    await weaviate.create_index(index_id, DIMENSIONS)
    long = " ".join(f"filler{n}" for n in range(200))
    chunks = [chunk(f"long{n}", f"harbour {long}", SEA, file_id=f"l{n}") for n in range(20)]
    await weaviate.write(index_id, [*chunks, chunk("short", "harbour crane", SEA, file_id="s")])
    await weaviate.finish(index_id)
    hits = await search(weaviate, index_id, query("harbour", mode="keyword", top_k=3))
    assert hits[0].chunk_id == "short"
    assert hits[0].score > 1.5 * hits[1].score
    await weaviate.drop_index(index_id)


async def _until_answered(call: Callable[[], Awaitable[T]]) -> T:
    """The calls are safe to repeat, and a busy machine makes a server late."""

    async def answers() -> tuple[T] | None:
        try:
            return (await call(),)
        except EngineUnavailable:
            return None

    answered = await until(answers, pause=0.1)
    assert answered is not None
    return answered[0]
