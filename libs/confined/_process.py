"""The parent's side of a confined process: starts it, sends it jobs, enforces its limits and kills it."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from math import ceil
from pathlib import Path
from typing import IO, Final, Self

from libs.confined import _frames
from libs.confined._frames import Job
from libs.confined._limits import (
    JobRefused,
    Limits,
    OutOfMemory,
    OutOfTime,
    PartDone,
    ProcessKilled,
    ProcessNotStarted,
    no_parts,
)

_WATCH_SECONDS: Final = 0.1
_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 10.0
_BUFFER: Final = 1024**2
_LIBRARY_PATHS: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
# A service runs one process per core, so threads would only compete.
_SINGLE_THREADED: Final = {
    "RAYON_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OMP_THREAD_LIMIT": "1",
    "MALLOC_ARENA_MAX": "2",
}


class ConfinedProcess:
    def __init__(self, process: asyncio.subprocess.Process, folder: Path, errors: IO[bytes], limits: Limits) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._folder = folder
        self._errors = errors
        self._limits = limits
        self._outgrown = False
        self._receiving = False
        self.jobs = 0
        self.worked_seconds = 0.0
        self.progressed_at = 0.0
        """When the current job started or last finished a part, by the event loop's clock."""

    @classmethod
    async def start(
        cls, module: str, limits: Limits, *, cpu_seconds: float, environment: Mapping[str, str] | None = None
    ) -> Self:
        """Starts a process that runs the module, which must call ``answer_jobs``. Raises ProcessNotStarted.

        The process inherits only the library paths from the parent's environment.
        """
        folder = Path(tempfile.mkdtemp(prefix="aes-confined-"))
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process lives
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-s", "-m", module,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors, limit=_BUFFER,
                cwd=folder, env={**_environment(folder), **(environment or {})},
                # With its own session, the process can be killed together with its group, and Ctrl+C in the terminal
                # doesn't reach it.
                start_new_session=True,
            )  # fmt: skip
        except BaseException:
            errors.close()
            shutil.rmtree(folder, ignore_errors=True)
            raise
        started = cls(process, folder, errors, limits)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await started._exchange({**asdict(limits), "cpu_seconds": ceil(cpu_seconds) + 1}, b"")
        except (TimeoutError, EOFError, OSError):
            error_output = started._last_words()
            await started.kill()
            raise ProcessNotStarted(process.returncode or 0, error_output) from None
        except BaseException:
            await started.kill()
            raise
        return started

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    def memory(self) -> int:
        """Returns the resident memory in bytes, or 0 if the process has exited or the system doesn't report it."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    async def call(self, job: Job, body: bytes = b"", *, files: Mapping[str, Path] | None = None) -> tuple[Job, bytes]:
        """Runs a job on copies of ``files``, which are placed in the process's folder under the given names.

        Raises JobRefused. Also raises OutOfTime, OutOfMemory and ProcessKilled, after which the process must be killed.
        """
        self.jobs += 1
        async with self._copies(files or {}):
            head, answer = await self._call(job, body)
        if "out_of_memory" in head:
            raise OutOfMemory
        if "refused" in head:
            raise JobRefused(head["refused"])
        return head, answer

    async def _call(self, job: Job, body: bytes) -> tuple[Job, bytes]:
        watch = asyncio.create_task(self._watch())
        clock = asyncio.get_running_loop().time
        begun = clock()
        end = begun + self._limits.job_seconds
        try:
            async with asyncio.timeout(None) as limit:

                def next_part() -> None:
                    self.progressed_at = clock()
                    limit.reschedule(min(self.progressed_at + self._limits.seconds, end))

                next_part()
                return await self._exchange(job, body, next_part)
        except TimeoutError:
            raise OutOfTime(whole=clock() >= end) from None
        except (EOFError, OSError):
            await self._gone()
            if self._outgrown or "memory allocation" in self._last_words():
                raise OutOfMemory from None
            raise ProcessKilled(self._process.returncode or 0, self._last_words()) from None
        finally:
            self.worked_seconds += clock() - begun
            watch.cancel()

    async def kill(self) -> None:
        """Kills the process and its group and deletes its folder. Returns once the process has exited."""
        self._kill_group()
        self._stdin.close()
        if not self._receiving:
            # asyncio's own wait also waits for the pipes to close, and it misses the end of an unread pipe.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    while await self._stdout.read(_BUFFER):
                        pass
        await self._process.wait()
        self._errors.close()
        # This doesn't run in a thread, since a cancelled call wouldn't wait for it.
        shutil.rmtree(self._folder, ignore_errors=True)

    def _kill_group(self) -> None:
        if self.alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def _gone(self) -> None:
        """Waits for the process to exit after its pipes have closed. Kills it if necessary."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()
        if self.alive:
            self._kill_group()
            await self._process.wait()

    @asynccontextmanager
    async def _copies(self, files: Mapping[str, Path]) -> AsyncIterator[None]:
        # Copies are used so that the process can't change the files or learn their paths.
        for name, path in files.items():
            try:
                await asyncio.to_thread(shutil.copyfile, path, self._folder / name)
            except OSError:
                if self.alive:
                    raise
                # Killing the process has already removed its folder.
                raise ProcessKilled(self._process.returncode or 0, self._last_words()) from None
        try:
            yield
        finally:
            for name in files:
                (self._folder / name).unlink(missing_ok=True)

    async def _exchange(self, head: Job, body: bytes, part_done: PartDone = no_parts) -> tuple[Job, bytes]:
        if self._stdin.is_closing():
            # In uvloop, writing to a pipe closed by `kill` raises RuntimeError.
            raise BrokenPipeError
        self._stdin.writelines(_frames.pack(head, body))
        await self._stdin.drain()
        self._receiving = True
        try:
            most = self._limits.memory_bytes
            while "part_done" in (answer := await _frames.receive(self._stdout, most_bytes=most))[0]:
                part_done()
            return answer
        finally:
            self._receiving = False

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if self.memory() > self._limits.memory_bytes:
                self._outgrown = True
                self._kill_group()
                return

    def _last_words(self) -> str:
        # `kill` closes the file, possibly while the job is still failing.
        if self._errors.closed:
            return ""
        self._errors.seek(max(self._errors.seek(0, os.SEEK_END) - 2000, 0))
        return self._errors.read().decode(errors="replace")


def _environment(folder: Path) -> dict[str, str]:
    """Returns a minimal environment without secrets or addresses of other services."""
    kept = {name: os.environ[name] for name in _LIBRARY_PATHS if name in os.environ}
    home = str(folder)
    return (
        kept
        | _SINGLE_THREADED
        | {
            "HOME": home,
            "TMPDIR": home,
            "LANG": "C.UTF-8",
            "PATH": os.defpath,
            "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path if path),
        }
    )


async def run_confined(
    module: str, job: Job, *, seconds: float, memory_bytes: int, files: Mapping[str, Path] | None = None
) -> Job:
    """Runs a single job in a new process, within ``seconds`` of wall time. The module must call ``answer_job``.

    The process gets copies of ``files`` under the given names. Raises JobRefused, OutOfMemory, ProcessKilled and
    TimeoutError.
    """
    limits = Limits(seconds=seconds, job_seconds=seconds, memory_bytes=memory_bytes)
    process = await ConfinedProcess.start(module, limits, cpu_seconds=seconds)
    try:
        answer, _ = await process.call(job, files=files)
    finally:
        await process.kill()
    return answer
