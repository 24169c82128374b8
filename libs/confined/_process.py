"""Runs jobs on strangers' files in processes of their own, which have limits, no secrets and nothing to lose."""

import asyncio
import json
import os
import resource
import sys
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any, Final

from libs.confined._priority import give_way

Job = dict[str, Any]
_LIBRARY_PATHS: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_OPEN_FILES: Final = 64


class JobRefused(Exception):
    """The job cannot be done; the message is for the owner of what was given."""


class ProcessKilled(Exception):
    """A limit, a crash or an error that nobody expected ended the process. ``errors``: the end of what it wrote."""

    def __init__(self, status: int, errors: str) -> None:
        super().__init__(f"status {status}: {errors}")
        self.status = status
        self.errors = errors


async def run_confined(module: str, job: Job, *, seconds: float, memory_bytes: int, directory: Path) -> Job:
    """Runs the module and returns its answer, made with ``answer_job``, within ``seconds`` of wall time.

    Raises ``JobRefused`` when it refuses, ``ProcessKilled`` and ``TimeoutError``. A cancelled call leaves no
    process. ``directory`` is all that the process knows of the file system.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-s",
        "-m",
        module,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=directory,
        env=_environment(directory),
        start_new_session=True,
    )
    limits = {"seconds": seconds, "memory_bytes": memory_bytes}
    try:
        async with asyncio.timeout(seconds):
            output, errors = await process.communicate(json.dumps({"limits": limits, "job": job}).encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ProcessKilled(process.returncode, errors[-300:].decode(errors="replace"))
    answer: Job = json.loads(output)
    if "refused" in answer:
        raise JobRefused(answer["refused"])
    return answer


def answer_job(work: Callable[[Job], Job]) -> None:
    """The process's side: does the job on the standard input, within its limits and at a low priority."""
    give_way()
    asked = json.loads(sys.stdin.buffer.read())
    _limit(**asked["limits"])
    try:
        answer = work(asked["job"])
    except JobRefused as problem:
        answer = {"refused": str(problem)}
    except MemoryError:
        answer = {"refused": "Reading it takes too much memory."}
    # Halves of surrogate pairs, which some files have, cannot be encoded.
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode(errors="replace"))


def _limit(seconds: float, memory_bytes: int) -> None:
    if sys.platform == "linux":
        # macOS refuses this one; there the limit of time has to do.
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    # Also ends the process when its parent is gone.
    resource.setrlimit(resource.RLIMIT_CPU, (ceil(seconds) + 1,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))


def _environment(directory: Path) -> dict[str, str]:
    """Nothing of the parent's but where libraries are: no keys and no addresses."""
    kept = {name: os.environ[name] for name in _LIBRARY_PATHS if name in os.environ}
    place = str(directory)
    return kept | {
        "HOME": place,
        "TMPDIR": place,
        "LANG": "C.UTF-8",
        "PATH": os.defpath,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "RAYON_NUM_THREADS": "1",
    }
