"""Work in a process of its own: its limits, answers, and priority."""

import asyncio
import io
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
import uvloop

from libs.confined import (
    ConfinedPool,
    JobRefused,
    Limits,
    OutOfMemory,
    OutOfTime,
    ProcessKilled,
    _frames,
    _worker,
    answer_job,
    lower_priority,
    run_confined,
)
from libs.confined._process import ConfinedProcess
from tests.support.waiting import until

MODULE: Final = "tests.unit.confined.jobs"


async def run(do: str, files: dict[str, Path] | None = None, **job: Any) -> dict[str, Any]:
    return await run_confined(MODULE, {"do": do, **job}, seconds=30, memory_bytes=2**29, files=files)


@pytest.fixture
async def pool() -> AsyncIterator[ConfinedPool]:
    pool = ConfinedPool(MODULE, 1, Limits(seconds=30, job_seconds=60, memory_bytes=2**29))
    yield pool
    await pool.close()


def test_a_system_that_refuses_a_limit_of_memory_does_jobs_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def set_limit(kind: int, _: tuple[int, int]) -> None:
        if kind == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")

    limits = {"seconds": 10, "memory_bytes": 2**30, "slack_bytes": 0, "cpu_seconds": 10}
    asked = b"".join([*_frames.pack(limits), *_frames.pack({"a": 1})])
    answers = tmp_path / "answers"
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    monkeypatch.setattr(_worker, "lower_priority", lambda: None)
    monkeypatch.setattr(_worker, "_own_output", lambda: answers.open("wb"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(asked)))

    answer_job(lambda job: job)

    with answers.open("rb") as written:
        assert _frames.read(written) == ({"ready": True}, b"")
        assert _frames.read(written) == ({"a": 1}, b"")


async def test_a_process_knows_no_secrets_has_limits_and_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AES_SECRET", "x")

    shown = await run("show")

    assert not [name for name in shown["environment"] if name.startswith("AES_")]
    assert shown["niceness"] == min(os.nice(0) + 5, 19)
    assert shown["open_files"] == [64, 64]


async def test_a_process_has_a_folder_of_its_own_with_copies_of_the_files(tmp_path: Path) -> None:
    stored = tmp_path / "stored"
    stored.write_text("as it was")

    shown = await run("show", {"file.csv": stored})
    await run("change", {"file.csv": stored}, file="file.csv")

    assert shown["files"] == {"file.csv": "as it was"}
    assert shown["environment"]["HOME"] == shown["environment"]["TMPDIR"] == shown["directory"]
    assert str(tmp_path) not in str(shown)
    assert not os.path.exists(shown["directory"])  # noqa: ASYNC240
    assert stored.read_text() == "as it was"


async def test_a_job_of_a_pool_finds_no_files_of_the_job_before_it(pool: ConfinedPool, tmp_path: Path) -> None:
    stored = tmp_path / "stored"
    stored.write_text("text")
    for number in range(2):
        shown, _ = await pool.run("company", {"do": "show"}, files={f"{number}": stored})
        assert shown["files"] == {f"{number}": "text"}


async def test_what_ends_a_process_is_told() -> None:
    with pytest.raises(ProcessKilled) as died:
        await run("die")
    assert died.value.status < 0
    with pytest.raises(ProcessKilled, match="a fault of ours") as failed:
        await run("fail")
    assert failed.value.status == 1
    with pytest.raises(ProcessKilled, match="No module named"):
        await run_confined("tests.support.nothing", {}, seconds=30, memory_bytes=2**29)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_job_whose_process_was_killed_before_it_began_is_told(
    loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """As a service that stops kills the processes of a pool while a job still copies its files."""
    stored = tmp_path / "stored"
    stored.write_text("as it was")

    async def begin() -> None:
        limits = Limits(seconds=30, job_seconds=60, memory_bytes=2**29)
        process = await ConfinedProcess.start(MODULE, limits, cpu_seconds=60)
        await process.kill()
        for files in ({}, {"file": stored}):
            with pytest.raises(ProcessKilled):
                await process.call({"do": "show"}, files=files)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(begin())


async def test_a_refusal_and_too_much_memory_are_told() -> None:
    with pytest.raises(JobRefused, match="not this one"):
        await run("refuse")
    if sys.platform == "linux":
        with pytest.raises(OutOfMemory):
            await run("grow")


async def test_an_answer_larger_than_the_memory_of_a_process_is_not_read() -> None:
    stream = asyncio.StreamReader()
    stream.feed_data(b"".join(_frames.pack({}, b"x" * 1000)))
    with pytest.raises(EOFError, match="too much"):
        await _frames.receive(stream, most_bytes=1000)


async def test_a_refused_job_costs_a_pool_no_process(pool: ConfinedPool) -> None:
    first, _ = await pool.run("company", {"do": "show"})
    with pytest.raises(JobRefused):
        await pool.run("company", {"do": "refuse"})
    second, _ = await pool.run("company", {"do": "show"})
    assert first["directory"] == second["directory"]


@pytest.mark.slow(
    covered_by="integration/ingestion/parsing/test_pool.py::test_work_that_takes_too_long_is_given_up_and_the_next_is_done"
)
async def test_each_part_of_a_job_has_the_time_of_one() -> None:
    memory = 2**29
    parts = Limits(seconds=3, job_seconds=600, memory_bytes=memory)
    process = await ConfinedProcess.start("tests.unit.confined.job_in_parts", parts, cpu_seconds=60)
    assert await process.call({"parts": 8}) == ({"done": True}, b"all of it")
    await process.kill()
    whole = Limits(seconds=60, job_seconds=2, memory_bytes=memory)
    endless = await ConfinedProcess.start("tests.unit.confined.job_in_parts", whole, cpu_seconds=60)
    with pytest.raises(OutOfTime) as caught:
        await endless.call({"parts": 1000})
    assert caught.value.whole
    await endless.kill()


async def test_what_a_process_started_ends_with_it() -> None:
    child = psutil.Process((await run("start a child"))["pid"])

    await until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


async def test_a_process_whose_answer_nobody_reads_can_be_ended() -> None:
    process = await ConfinedProcess.start(
        MODULE, Limits(seconds=30, job_seconds=60, memory_bytes=2**30), cpu_seconds=60
    )
    answers, jobs = process._process.stdout, process._process.stdin
    assert answers is not None
    jobs.writelines(_frames.pack({"do": "flood"}))
    await until(lambda: answers._paused)

    await process.kill()

    assert not process.alive


def test_the_parent_is_told_of_parts_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = io.BytesIO()
    try:
        monkeypatch.setattr(_worker, "_REPORT_SECONDS", 3600.0)
        _worker._Parts(answers, 60)()
        assert answers.getvalue() == b""
        monkeypatch.setattr(_worker, "_REPORT_SECONDS", 0.0)
        _worker._Parts(answers, 60)()
    finally:
        signal.alarm(0)
    assert answers.getvalue() == b"".join(_frames.pack({"part_done": True}))


_PRINTS = (
    "import os; from libs.confined import lower_priority; lower_priority(); print(os.getpriority(os.PRIO_PROCESS, 0))"
)


def test_a_process_that_gives_way_is_nicer_than_its_parent_and_so_is_its_session() -> None:
    group = Path("/proc/self/autogroup")
    prints = _PRINTS + (f"; print(open({str(group)!r}).read().split()[-1])" if group.exists() else "")
    written = subprocess.run(
        [sys.executable, "-c", prints], capture_output=True, text=True, check=True, start_new_session=True
    ).stdout
    niceness, *session = written.split()
    assert int(niceness) == min(os.nice(0) + 5, 19)
    assert session in ([], ["5"])


def test_a_process_that_may_not_give_way_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse(niceness: int) -> int:
        asked.append(niceness)
        raise PermissionError

    monkeypatch.setattr(os, "nice", refuse)
    lower_priority()
    assert asked == [5]
