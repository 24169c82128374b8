"""Processes of a benchmark: the model's stub, the load generator, the reference app."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import psutil

from benchmarks.load.job import Job, Outcome
from benchmarks.stack import lookup_url
from deploy.local.errors import StackError
from deploy.local.files import tail
from deploy.local.home import PROJECT_ROOT
from deploy.local.ports import choose_free
from deploy.local.probes import answers_ok
from deploy.local.processes import MARKER, end, marked

_START_SECONDS = 30
_LONGEST_ANSWER = 64 * 1024 * 1024


class LoadFailed(Exception):
    """The load generator received an unexpected answer."""


class Children:
    """Starts processes that carry `marker` and write what they have to say to `log`."""

    def __init__(self, marker: str, log: Path) -> None:
        self._marker, self._log = marker, log

    def end_left_behind(self) -> None:
        """Ends processes that a killed run has left."""
        end(marked(self._marker))

    @asynccontextmanager
    async def started(
        self, arguments: list[str], environment: Mapping[str, str] | None = None
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", *arguments,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log, limit=_LONGEST_ANSWER,
                cwd=PROJECT_ROOT, env={**os.environ, **(environment or {}), MARKER: self._marker},
                start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(10):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()

    @asynccontextmanager
    async def model_stub(self) -> AsyncIterator[tuple[psutil.Process, str]]:
        """The model and its base URL."""
        async with self.started(["tests.servers.model_stub"]) as process:
            line = await self._line(process, "the model's stub")
            yield psutil.Process(process.pid), line.decode().strip()

    @asynccontextmanager
    async def reference_app(self, database_url: str, model_url: str) -> AsyncIterator[tuple[psutil.Process, int]]:
        """The reference app and its port."""
        port = choose_free()
        environment = {
            "REFERENCE_DATABASE_URL": database_url,
            "OPENAI_BASE_URL": model_url,
            "OPENAI_API_KEY": "not-needed",
            "REFERENCE_LOOKUP_URL": lookup_url(model_url),
        }
        async with self.started(["benchmarks.reference_app", str(port)], environment) as process:
            try:
                async with asyncio.timeout(_START_SECONDS):
                    while not await answers_ok(port, "/health"):
                        if process.returncode is not None:
                            raise StackError("The reference app ended while it started.", f"See {self._log}")
                        await asyncio.sleep(0.1)
            except TimeoutError:
                raise StackError("The reference app was not ready in time.", f"See {self._log}") from None
            yield psutil.Process(process.pid), port

    @asynccontextmanager
    async def load_generator(self) -> AsyncIterator["LoadGenerator"]:
        async with self.started(["benchmarks.load"]) as process:
            yield LoadGenerator(process, self._log)

    async def _line(self, process: asyncio.subprocess.Process, what: str) -> bytes:
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_START_SECONDS):
                line = await process.stdout.readline()
        except TimeoutError:
            line = b""
        if not line:
            raise StackError(f"{what} did not start.", f"See {self._log}")
        return line


class LoadGenerator:
    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process, self._log = process, log
        self.process = psutil.Process(process.pid)

    async def prepare(self, job: Job) -> None:
        """Create the job's sessions and warm up."""
        await self._ask(orjson.dumps(asdict(job)))

    async def run(self) -> Outcome:
        """The measured phase of the job that was prepared."""
        return Outcome(**await self._ask(b"go"))

    async def _ask(self, line: bytes) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()
        answer = await self._process.stdout.readline()
        if not answer:
            raise LoadFailed("The load generator ended:\n" + "\n".join(tail(self._log, 15)))
        document: dict[str, Any] = orjson.loads(answer)
        if "error" in document:
            raise LoadFailed(document["error"])
        return document
