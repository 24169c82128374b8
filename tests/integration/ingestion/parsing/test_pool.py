"""The pool with real processes: a malicious, slow or large file costs one process and fails alone."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.resources.knowledge_bases import ChunkingStrategy
from services.ingestion.adapters.embeddings.static import StaticEmbedder
from services.ingestion.adapters.engines.analysis import Analysis
from services.ingestion.adapters.parsing.pool import ParsingPool
from services.ingestion.domain.documents import ParsedDocument
from services.ingestion.domain.knowledge_bases import IndexSettings
from services.ingestion.domain.parsing import Unparsable
from tests.support.corpus import write_corpus
from tests.support.waiting import until

TEXT = "The ferry leaves at seven.\n\n" * 200
SHORT = ParsedDocument(TEXT)
LONG = ParsedDocument(TEXT * 2000)
CHUNKING = ChunkingStrategy(chunk_size=50, chunk_overlap=5)
# An index for which the processes only cut.
SETTINGS = IndexSettings("weaviate", CHUNKING, "openai", "model", 64)
SLOW_SETTINGS = IndexSettings("weaviate", ChunkingStrategy(strategy="markdown"), "openai", "model", 64)


@pytest.fixture
async def pool() -> AsyncIterator[ParsingPool]:
    pool = ParsingPool(1)
    yield pool
    await pool.close()


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "note"
    path.write_text(TEXT)
    return path


async def workers() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children():
        # One that was killed a moment ago has no command line any more.
        with contextlib.suppress(psutil.NoSuchProcess):
            if "parsing.worker" in " ".join(child.cmdline()):
                found.append(child)
    return found


@contextlib.asynccontextmanager
async def long_work(pool: ParsingPool) -> AsyncIterator["asyncio.Task[object]"]:
    """A call that takes many seconds, in the middle of which the body runs."""
    await pool.chunk(SHORT, SETTINGS, "id/hash")
    worker = (await workers())[0]
    used = worker.cpu_times().user
    task = asyncio.create_task(pool.chunk(LONG, SLOW_SETTINGS, "id/hash"))

    async def busy() -> bool:
        return worker.cpu_times().user > used + 0.2

    await until(busy)
    yield task


async def test_one_step_gives_what_two_give(pool: ParsingPool, note: Path) -> None:
    parsed = await pool.parse(note, "note.md", "")
    assert parsed.text == TEXT
    chunks = await pool.chunk(parsed, SETTINGS, "id/hash")
    assert len(chunks) > 10
    assert all(parsed.text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert await pool.parse_and_chunk(note, "note.md", "", SETTINGS, "id/hash") == (parsed, chunks)


async def test_chunks_come_with_what_their_index_takes(pool: ParsingPool, note: Path) -> None:
    index = IndexSettings("pgvector", CHUNKING, "wordllama", "l2_supercat", 64)
    parsed, chunks = await pool.parse_and_chunk(note, "note.md", "", index, "id/hash")
    assert chunks == await pool.chunk(parsed, SETTINGS, "id/hash")
    vectors, terms = StaticEmbedder(64).embed_here([chunk.text for chunk in chunks]), Analysis()
    for again in (chunks, await pool.chunk(parsed, index, "id/hash")):
        for chunk, vector in zip(again, vectors, strict=True):
            assert chunk.vector.tolist() == vector.tolist()
            expected = terms.counts(chunk.text)
            assert chunk.terms.numbers.tolist() == expected.numbers.tolist()
            assert chunk.terms.counts.tolist() == expected.counts.tolist()
            assert chunk.terms.length == expected.length


async def test_every_file_of_a_mixed_folder_is_read_or_refused_with_a_reason(tmp_path: Path) -> None:
    good, poison = write_corpus(tmp_path)
    assert len(good) + len(poison) == 200
    pool = ParsingPool(2)

    async def code(name: str) -> str:
        with pytest.raises(Unparsable) as caught:
            await pool.parse_and_chunk(tmp_path / name, name, "", SETTINGS, name)
        assert caught.value.message
        return caught.value.code

    async def passages(name: str) -> str:
        _, chunks = await pool.parse_and_chunk(tmp_path / name, name, "", SETTINGS, name)
        return " ".join(chunk.text for chunk in chunks)

    codes = asyncio.gather(*(code(file.name) for file in poison))
    found = await asyncio.gather(*(passages(file.name) for file in good))
    assert [file.name for file, text in zip(good, found, strict=True) if file.marker not in text] == []
    assert [(f.name, c) for f, c in zip(poison, await codes, strict=True) if c not in f.codes] == []
    assert len({file.marker for file in good}) == len(good)
    await pool.close()
    assert await workers() == []


async def test_work_that_takes_too_long_is_given_up_and_the_next_is_done(note: Path) -> None:
    pool = ParsingPool(1, timeout_seconds=3)
    with pytest.raises(Unparsable) as caught:
        await pool.chunk(LONG, SLOW_SETTINGS, "id/hash")
    assert (caught.value.code, caught.value.retryable) == ("timeout", True)
    assert (await pool.parse(note, "note.txt", "")).text == TEXT
    await pool.close()


async def test_a_file_that_takes_too_much_memory_is_given_up(tmp_path: Path, note: Path) -> None:
    greedy = tmp_path / "greedy"
    greedy.write_bytes(b"[" + b"[]," * 4_000_000 + b"[]]")
    pool = ParsingPool(1, memory_bytes=120 * 1024**2)
    with pytest.raises(Unparsable) as caught:
        await pool.parse(greedy, "greedy.json", "")
    assert caught.value.code == "memory"
    assert (await pool.parse(note, "note.txt", "")).text == TEXT
    await pool.close()


@pytest.mark.crash("a parsing process")
async def test_killed_processes_cost_no_file(pool: ParsingPool, note: Path) -> None:
    await pool.parse(note, "note.txt", "")
    (await workers())[0].kill()
    assert (await pool.parse(note, "note.txt", "")).text == TEXT

    async with long_work(pool) as under_way:
        killed = (await workers())[0]
        killed.kill()

        async def replaced() -> bool:
            return any(worker.pid != killed.pid for worker in await workers())

        await until(replaced)
        assert not under_way.done()
        under_way.cancel()


async def test_what_kills_every_process_is_refused(pool: ParsingPool) -> None:
    async with long_work(pool) as under_way:

        async def given_up() -> bool:
            for worker in await workers():
                if worker.cpu_times().user > 0.2:
                    worker.kill()
            return under_way.done()

        await until(given_up, "the call is given up", pause=0.05)
    with pytest.raises((Unparsable, ServiceUnavailable)):
        await under_way


async def test_a_cancelled_call_frees_its_place(pool: ParsingPool, note: Path) -> None:
    async with long_work(pool) as under_way:
        before = await workers()
        under_way.cancel()
        with pytest.raises(asyncio.CancelledError):
            await under_way
    assert (await pool.parse(note, "note.txt", "")).text == TEXT
    assert not {worker.pid for worker in before} & {worker.pid for worker in await workers()}


async def test_a_closed_pool_refuses_and_fails_what_was_under_way(pool: ParsingPool, note: Path) -> None:
    async with long_work(pool) as under_way:
        await pool.close()
        with pytest.raises(ServiceUnavailable):
            await under_way
    with pytest.raises(ServiceUnavailable):
        await pool.parse(note, "note.txt", "")
    assert await workers() == []


async def test_a_pool_closed_while_a_process_starts_leaves_none(pool: ParsingPool, note: Path) -> None:
    under_way = asyncio.create_task(pool.parse(note, "note.txt", ""))

    async def starting() -> bool:
        return bool(await workers())

    await until(starting)
    await pool.close()
    with pytest.raises(ServiceUnavailable):
        await under_way
    assert await workers() == []


_SERVICE = """
import asyncio
from services.ingestion.adapters.parsing.pool import ParsingPool
from tests.integration.ingestion.parsing.test_pool import LONG, SETTINGS, SHORT, SLOW_SETTINGS

async def main():
    pool = ParsingPool(2, timeout_seconds=8)
    await asyncio.gather(*(pool.chunk(SHORT, SETTINGS, "id") for _ in range(2)))
    print("ready", flush=True)
    await pool.chunk(LONG, SLOW_SETTINGS, "id")

asyncio.run(main())
"""


@pytest.mark.crash("a parsing process")
@pytest.mark.slow
async def test_processes_end_with_a_service_that_was_killed() -> None:
    service = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _SERVICE, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": "."}
    )
    assert await service.stdout.readline() == b"ready\n"
    idle_and_busy = psutil.Process(service.pid).children()
    at_rest = [child.cpu_times().user for child in idle_and_busy]

    async def one_is_busy() -> bool:
        now = [child.cpu_times().user for child in idle_and_busy]
        return max(used - before for used, before in zip(now, at_rest, strict=True)) > 0.2

    await until(one_is_busy)
    service.kill()
    await service.wait()

    async def gone() -> bool:
        return not any(child.is_running() and child.status() != "zombie" for child in idle_and_busy)

    await until(gone)
    assert len(idle_and_busy) == 2


async def test_a_used_up_process_is_replaced(note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.confined._pool._JOBS_PER_PROCESS", 2)
    pool = ParsingPool(1)
    used = []
    for _ in range(4):
        await pool.parse(note, "note.txt", "")
        used.append({child.pid for child in await workers()})
    await pool.close()
    assert used[0]
    assert used[2]
    assert used[0] != used[2]


async def test_a_company_that_keeps_the_processes_busy_keeps_no_other_waiting(pool: ParsingPool, note: Path) -> None:
    """The hostile text is cut for minutes; another company's file is read meanwhile."""
    hostile = [asyncio.create_task(pool.chunk(LONG, SLOW_SETTINGS, "id/hash", company_id="busy")) for _ in range(3)]

    async def busy() -> bool:
        return len(await workers()) == 1

    await until(busy)
    assert (await pool.parse(note, "note.txt", "", company_id="other")).text == TEXT
    assert not any(task.done() for task in hostile)
    for task in hostile:
        task.cancel()
    await asyncio.gather(*hostile, return_exceptions=True)
