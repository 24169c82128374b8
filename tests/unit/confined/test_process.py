import io
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from libs.confined import JobRefused, ProcessKilled, _process, answer_job, run_confined


def test_a_system_that_refuses_a_limit_of_memory_does_jobs_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    def set_limit(kind: int, _: tuple[int, int]) -> None:
        if kind == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")

    asked = {"limits": {"seconds": 10, "memory_bytes": 2**30}, "job": {"a": 1}}
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    monkeypatch.setattr(_process, "give_way", lambda: None)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(asked).encode())))
    answer_job(lambda job: job)
    assert json.loads(capfdbinary.readouterr().out) == {"a": 1}


async def test_a_process_knows_no_secrets_gives_way_and_is_told_of_when_it_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "shown.py").write_text(
        "import os; from libs.confined import answer_job; answer_job(lambda job: dict(os.environ))"
    )
    (tmp_path / "jobs" / "nice.py").write_text(
        "import os; from libs.confined import answer_job; answer_job(lambda job: {'niceness': os.nice(0)})"
    )
    (tmp_path / "jobs" / "dying.py").write_text("import os; os.abort()")
    monkeypatch.syspath_prepend(str(tmp_path / "jobs"))
    monkeypatch.setenv("AES_SECRET", "x")

    async def run(module: str) -> dict[str, Any]:
        return await run_confined(module, {}, seconds=30, memory_bytes=2**30, directory=tmp_path)

    assert not [name for name in await run("shown") if name.startswith("AES_")]
    assert await run("nice") == {"niceness": min(os.nice(0) + 5, 19)}
    with pytest.raises(ProcessKilled):
        await run("dying")


async def test_a_refusal_and_too_much_memory_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "refusing.py").write_text(
        "from libs.confined import JobRefused, answer_job\n"
        "def work(job):\n"
        "    if job['large']:\n"
        "        bytearray(2**31)\n"
        "    raise JobRefused('not this one')\n"
        "answer_job(work)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "jobs"))

    async def run(large: bool) -> None:
        await run_confined("refusing", {"large": large}, seconds=30, memory_bytes=2**29, directory=tmp_path)

    with pytest.raises(JobRefused, match="not this one"):
        await run(large=False)
    if sys.platform == "linux":
        with pytest.raises(JobRefused, match="memory"):
            await run(large=True)
