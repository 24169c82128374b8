"""A pool of reusable confined processes, shared fairly among companies."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from libs.confined._frames import Job
from libs.confined._limits import JobRefused, Limits, ProcessKilled, ProcessNotStarted
from libs.confined._process import ConfinedProcess
from libs.fairness import FairSemaphore

# Importing structlog would double the import time of a single-job process.
_log = logging.getLogger(__name__)
_JOBS_PER_PROCESS: Final = 10_000
_ATTEMPTS: Final = 2
_FULL: Final = 0.5


class PoolClosed(Exception):
    """The pool was closed because the service is stopping."""


class ConfinedPool:
    """Runs jobs in up to ``size + 1`` processes. A company can use ``size`` of them at once.

    This way, a company's long jobs don't block other companies. Waiting companies are served in rotation. Cancelling a
    call kills its process.
    """

    def __init__(self, module: str, size: int, limits: Limits, environment: Mapping[str, str] | None = None) -> None:
        self._module = module
        self._limits = limits
        self._environment = environment
        self._permits = FairSemaphore(size + 1, each=size)
        self._idle: list[ConfinedProcess] = []
        self._processes: set[ConfinedProcess] = set()
        self._closed = False

    async def run(
        self, company_id: str, job: Job, body: bytes = b"", *, files: Mapping[str, Path] | None = None
    ) -> tuple[Job, bytes]:
        """Runs a job. Raises ProcessNotStarted, PoolClosed, and the same errors as ``ConfinedProcess.call``.

        If the process is killed, the job is retried once, since the operating system may have killed it for lack of
        memory.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                async with self._permits.acquire(company_id):
                    return await self._attempt(job, body, files)
            except ProcessKilled as killed:
                if self._closed:
                    raise PoolClosed from None
                if isinstance(killed, ProcessNotStarted) or attempt == _ATTEMPTS:
                    raise
                _log.warning("A confined process of %s died with status %d", self._module, killed.status)
        raise AssertionError("the last attempt returns or raises")

    def progressed_within(self, seconds: float) -> bool:
        """Returns whether any job has started or finished a part in the last ``seconds``."""
        since = asyncio.get_running_loop().time() - seconds
        return any(process.progressed_at > since for process in self._processes)

    async def close(self) -> None:
        """Kills all processes. Calls that are still running raise PoolClosed."""
        self._closed = True
        processes, self._processes = self._processes, set()
        await asyncio.gather(*(process.kill() for process in processes))

    async def _attempt(self, job: Job, body: bytes, files: Mapping[str, Path] | None) -> tuple[Job, bytes]:
        process = self._idle.pop() if self._idle else None
        # An interrupted job leaves an incomplete frame in the pipes, so the process is discarded.
        is_interrupted = True
        try:
            if process is None or not process.alive:
                process = await self._replace(process)
            answer = await process.call(job, body, files=files)
            is_interrupted = False
            return answer
        except JobRefused:
            is_interrupted = False
            raise
        finally:
            if process is not None and not is_interrupted and not self._is_used_up(process):
                self._idle.append(process)
            else:
                await self._discard(process)

    def _is_used_up(self, process: ConfinedProcess) -> bool:
        """Returns whether to replace the process. Native parsers leak memory, and a process's CPU time is limited."""
        return (
            process.jobs >= _JOBS_PER_PROCESS
            or process.memory() > _FULL * self._limits.memory_bytes
            or process.worked_seconds > self._limits.job_seconds
        )

    async def _replace(self, old: ConfinedProcess | None) -> ConfinedProcess:
        if self._closed:
            raise PoolClosed
        await self._discard(old)
        # This covers the CPU time of the process's earlier jobs and of its last one.
        cpu_seconds = 2 * self._limits.job_seconds
        process = await ConfinedProcess.start(
            self._module, self._limits, cpu_seconds=cpu_seconds, environment=self._environment
        )
        self._processes.add(process)
        if self._closed:
            await self._discard(process)
            raise PoolClosed
        return process

    async def _discard(self, process: ConfinedProcess | None) -> None:
        if process is not None and process in self._processes:
            self._processes.remove(process)
            await process.kill()
