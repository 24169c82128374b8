"""A parsing process, from its parent's side: start, jobs, memory watch, kill."""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from dataclasses import asdict
from typing import IO, Any, Self

import psutil

from libs.contracts.errors import ServiceUnavailable
from services.ingestion.adapters.parsing import frames
from services.ingestion.adapters.parsing.limits import Limits, PartDone, no_parts
from services.ingestion.domain.parsing import Unparsable

_WATCH_SECONDS = 0.1
_START_SECONDS = 60.0
_END_SECONDS = 10.0
_BUFFER = 1024**2
_MODULE = "services.ingestion.adapters.parsing.worker"
# No other variables: a process that opens untrusted documents gets no keys and no addresses.
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TESSDATA_PREFIX", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
# The pool is sized for all cores: threads would only compete.
_SINGLE_THREADED = {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "1", "MALLOC_ARENA_MAX": "2"}


class ProcessDied(Exception):
    """The process ended during a job, for another reason than its limits."""


class ParsingProcess:
    def __init__(self, process: asyncio.subprocess.Process, errors: IO[bytes], limits: Limits) -> None:
        self._process = process
        self._errors = errors
        self._limits = limits
        self._usage = psutil.Process(process.pid)
        self._outgrown = False
        self.jobs = 0
        self.moved_at = 0.0
        """When its job began, or last had a part done, on the clock of the event loop."""

    @classmethod
    async def start(cls, limits: Limits) -> Self:
        """Raises ServiceUnavailable when it does not start."""
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process lives
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _MODULE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=_BUFFER,
            env=_environment(),
            # A session of its own: an interrupt at the terminal is for the service, which ends its processes itself.
            start_new_session=True,
        )
        started = cls(process, errors, limits)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await started._exchange(asdict(limits), b"")
        except (TimeoutError, EOFError, OSError):
            reason = started._last_words()
            await started.kill()
            raise ServiceUnavailable(f"A parsing process did not start: {reason}") from None
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
        """Resident memory in bytes; 0 when it has ended."""
        try:
            return int(self._usage.memory_info().rss)
        except psutil.Error:
            return 0

    async def call(self, job: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        """Raises Unparsable when a limit is exceeded, and ProcessDied. After these it must be killed."""
        self.jobs += 1
        watch = asyncio.create_task(self._watch())
        clock = asyncio.get_running_loop().time
        end = clock() + self._limits.file_seconds
        try:
            async with asyncio.timeout(None) as limit:

                def next_part() -> None:
                    self.moved_at = clock()
                    limit.reschedule(min(self.moved_at + self._limits.timeout_seconds, end))

                next_part()
                return await self._exchange(job, body, next_part)
        except TimeoutError:
            raise self._too_slow(whole=clock() >= end) from None
        except (EOFError, OSError):
            await self._gone()
            if self._outgrown or "memory allocation" in self._last_words():
                raise self.out_of_memory() from None
            raise ProcessDied(f"a parsing process ended with {self._process.returncode}") from None
        finally:
            watch.cancel()

    def _too_slow(self, *, whole: bool) -> Unparsable:
        what, seconds = "a part of the file", self._limits.timeout_seconds
        if whole:
            what, seconds = "the file", self._limits.file_seconds
        return Unparsable("timeout", f"Reading {what} takes more than {seconds:g} seconds.", retryable=True)

    def out_of_memory(self) -> Unparsable:
        return Unparsable(
            "memory", f"Reading the file takes more than {self._limits.memory_bytes // 1024**2:,} MB of memory."
        )

    async def kill(self) -> None:
        """Kills the process group; returns when the process has ended."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.close()
        # asyncio waits for the pipes to end too, and never sees the end of one that it no longer reads.
        stdout._transport.close()  # type: ignore[attr-defined]
        await self._process.wait()
        self._errors.close()

    async def _gone(self) -> None:
        """Waits for the end of the process after that of its pipes, and kills it if need be."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()
        if self.alive:
            await self.kill()

    async def _exchange(
        self, head: dict[str, Any], body: bytes, part_done: PartDone = no_parts
    ) -> tuple[dict[str, Any], bytes]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.writelines(frames.pack(head, body))
        await stdin.drain()
        while "part_done" in (answer := await frames.receive(stdout))[0]:
            part_done()
        return answer

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if self.memory() > self._limits.memory_bytes:
                self._outgrown = True
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                return

    def _last_words(self) -> str:
        # `kill` closes the file, perhaps while the job is still failing.
        if self._errors.closed:
            return ""
        self._errors.seek(max(self._errors.seek(0, os.SEEK_END) - 2000, 0))
        return self._errors.read().decode(errors="replace")


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return kept | _SINGLE_THREADED | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
