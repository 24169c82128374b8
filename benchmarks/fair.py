"""`aes bench fair`: how one company is affected when another company floods every queue.

The first company runs turns, uploads files and ingests 11-byte files at a steady rate, first alone, then during a
flood. The second company floods every queue with turns, streams, uploads, text that is slow to chunk, and failing
webhooks, from a separate process: `python -m benchmarks.fair BASE_URL API_KEY FAILING_URL`.
"""

import asyncio
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from benchmarks.report import Result, percentile
from benchmarks.stack import Say, own_home, stack_postgres, whole_stack
from deploy.local.errors import StackError
from deploy.local.files import tail
from libs.confined import lower_priority
from services.gateway.administration import administration

GOAL: Final = 2.0
"""The maximum ratio of a 95th percentile with the flood to the percentile without the flood."""
_SETTLE_SECONDS: Final = 10.0
_INGESTED_WITHIN_SECONDS: Final = 120.0
_AGAIN_SECONDS: Final = 0.25
_SLOW_TEXT: Final = b"The ferry leaves at seven.\n\n" * 3500
_TURNS, _STREAMS, _INGESTIONS, _UPLOADS, _WEBHOOKS = 300, 500, 4, 2, 4


class Unexpected(Exception):
    def __init__(self, status: int, body: str, retry_after: float) -> None:
        super().__init__(f"{status}: {body[:300]}")
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True)
class Company:
    """Calls the API with a company's key. Needs less CPU per request than the Python client."""

    session: aiohttp.ClientSession

    @classmethod
    @asynccontextmanager
    async def at(cls, base_url: str, api_key: str) -> AsyncIterator["Company"]:
        timeout, connector = aiohttp.ClientTimeout(total=None), aiohttp.TCPConnector(limit=0)
        headers = {"x-api-key": api_key}
        async with aiohttp.ClientSession(base_url, headers=headers, timeout=timeout, connector=connector) as session:
            yield cls(session)

    async def post(self, path: str, body: Any, *expected: int, name: str = "", **headers: str) -> dict[str, Any]:
        """Posts ``body``, which is JSON, or a file's content if ``name`` is given."""
        headers["idempotency-key"] = uuid.uuid4().hex
        while True:
            sent: dict[str, Any] = {"json": body}
            if name:
                sent = {"data": aiohttp.FormData()}
                sent["data"].add_field("file", body, filename=name)
            async with self.session.post(f"/api/v1{path}", headers=headers, **sent) as answer:
                if answer.status in expected:
                    return dict(await answer.json())
                if answer.status not in (503, 504):
                    raise Unexpected(answer.status, await answer.text(), float(answer.headers.get("Retry-After", 0)))
            await asyncio.sleep(_AGAIN_SECONDS)

    async def new_session(self, model: str) -> str:
        agent = {"name": "Fair", "agent_type": "llm_agent", "llm_config": {"model": model}}
        return str((await self.post("/sessions/", agent, 201))["session_id"])

    async def upload(self, name: str, content: bytes) -> str:
        return str((await self.post("/files/", content, 201, name=name))["id"])

    async def ingest(self, name: str, content: bytes, **settings: Any) -> None:
        """Uploads a file, and returns once its knowledge base is searchable."""
        base = {"name": name, "file_ids": [await self.upload(name, content)], **settings}
        base_id = (await self.post("/knowledge-bases/", base, 201))["id"]
        async with asyncio.timeout(_INGESTED_WITHIN_SECONDS):
            while True:
                async with self.session.get(f"/api/v1/knowledge-bases/{base_id}/") as answer:
                    if (await answer.json()).get("status") in ("completed", "failed"):
                        return
                await asyncio.sleep(0.1)


@dataclass
class Probes:
    """Starts operations at a steady rate. ``seconds`` contains the durations by kind of operation."""

    company: Company
    seconds: dict[str, list[float]] = field(default_factory=dict)
    _begun: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, duration: float) -> dict[str, float]:
        """Runs for ``duration`` seconds. Returns the 95th percentiles in seconds, by kind of operation."""
        sessions = [await self.company.new_session("openai:stub") for _ in range(16)]
        numbers = iter(range(10**9))

        async def turn() -> None:
            path = f"/runtime/{sessions[next(numbers) % len(sessions)]}/execute/"
            await self.company.post(path, {"content": "What is it?"}, 200)

        async def upload() -> None:
            await self.company.upload(f"note-{time.monotonic_ns()}.txt", os.urandom(2_000).hex().encode())

        async def ingestion() -> None:
            await self.company.ingest(f"short-{time.monotonic_ns()}.txt", os.urandom(5).hex().encode() + b".")

        self.seconds = {}
        kinds = {"turn": (0.25, turn), "upload": (0.5, upload), "ingestion": (1.5, ingestion)}
        async with asyncio.TaskGroup() as pacing:
            for kind, (pause, operation) in kinds.items():
                pacing.create_task(self._pace(kind, pause, operation, duration))
        await asyncio.gather(*self._begun)
        return {kind: percentile(taken, 95) for kind, taken in self.seconds.items()}

    async def _pace(self, kind: str, pause: float, operation: Callable[[], Awaitable[None]], duration: float) -> None:
        end = time.monotonic() + duration
        while time.monotonic() < end:
            task = asyncio.create_task(self._measured(kind, operation))
            self._begun.add(task)
            task.add_done_callback(self._begun.discard)
            await asyncio.sleep(pause)

    async def _measured(self, kind: str, operation: Callable[[], Awaitable[None]]) -> None:
        began = time.perf_counter()
        await operation()
        self.seconds.setdefault(kind, []).append(time.perf_counter() - began)


async def run(seconds: float, say: Say) -> Result:
    """Measures a company with and without the flood."""
    async with (
        own_home("fair") as (home, children),
        children.model_stub() as (_, model_url),
        whole_stack(home, model_url) as stack,
    ):
        url = stack_postgres(home).url("gateway")
        quiet_key, flooding_key = [await _key_of_new_company(url, name) for name in ("quiet", "flooding")]
        async with Company.at(stack.base_url, quiet_key) as company:
            probes = Probes(company)
            await probes.run(_SETTLE_SECONDS)
            say("alone")
            quiet = await probes.run(seconds)
            say("during the flood")
            arguments = ["benchmarks.fair", stack.base_url, flooding_key, f"{model_url}/nothing"]
            async with children.started(arguments) as flooding:
                await probes.run(_SETTLE_SECONDS)
                beside = await probes.run(seconds)
                if flooding.returncode is not None:
                    raise StackError("The flood ended before the measurement did.", "\n".join(tail(children.log, 15)))
    return result(seconds, quiet, beside)


def result(seconds: float, quiet: dict[str, float], beside: dict[str, float]) -> Result:
    """``quiet`` and ``beside`` are 95th percentiles in seconds, without and with the flood."""
    operations = {
        kind: {
            "p95_quiet_ms": round(quiet[kind] * 1000, 1),
            "p95_beside_flood_ms": round(beside[kind] * 1000, 1),
            "ratio": round(beside[kind] / quiet[kind], 2),
        }
        for kind in quiet
    }
    return Result(
        {"seconds": seconds, "goal": GOAL, "operations": operations},
        {"A company alone and during a flood": [{"operation": name, **of} for name, of in operations.items()]},
        missed=any(of["ratio"] > GOAL for of in operations.values()),
    )


async def _key_of_new_company(url: str, name: str) -> str:
    async with administration(url) as gateway:
        await gateway.create_company(name, rate_limit=None)
        await gateway.create_user(name, "someone")
        return (await gateway.create_key(name, "someone")).secret


async def flood(base_url: str, api_key: str, failing_url: str) -> None:
    """Runs the flood until the process is stopped."""
    # The flood's own work must not slow down the service.
    lower_priority()
    async with Company.at(base_url, api_key) as company, asyncio.TaskGroup() as tasks:
        for _ in range(_WEBHOOKS):
            await _persistently(company.post, "/webhooks/", {"url": failing_url, "event_types": ["*"]}, 201)
        for number in range(_TURNS):
            tasks.create_task(_turns(company))
            if number % 10 == 0:
                await asyncio.sleep(0.1)
        for _ in range(_STREAMS):
            tasks.create_task(_stream(company))
        for number in range(_UPLOADS):
            tasks.create_task(_uploads(company, number))
        for number in range(_INGESTIONS):
            tasks.create_task(_ingestions(company, number))


async def _turns(company: Company) -> None:
    session = await _persistently(company.new_session, "openai:stub-slow-2000")
    path = f"/runtime/{session}/execute/"
    while True:
        await _persistently(company.post, path, {"content": "What is it?"}, 202, prefer="respond-async")


async def _stream(company: Company) -> None:
    while True:
        with suppress(aiohttp.ClientError):
            async with company.session.get("/api/v1/events/", headers={"accept": "text/event-stream"}) as answer:
                async for _ in answer.content.iter_any():
                    pass
        await asyncio.sleep(1)


async def _uploads(company: Company, number: int) -> None:
    while True:
        await _persistently(company.upload, f"much-{number}.txt", os.urandom(50_000).hex().encode())


async def _ingestions(company: Company, number: int) -> None:
    settings = {"chunking_strategy": {"strategy": "markdown"}}
    while True:
        content = os.urandom(16).hex().encode() + _SLOW_TEXT
        await _persistently(company.ingest, f"slow-{number}-{time.monotonic_ns()}.md", content, **settings)


async def _persistently(call: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
    """Repeats a call after a failed connection or, once the requested time has passed, after a 429."""
    while True:
        try:
            return await call(*arguments, **options)
        except Unexpected as problem:
            if problem.status != 429:
                raise
            await asyncio.sleep(problem.retry_after or 1.0)
        except (aiohttp.ClientError, TimeoutError):
            await asyncio.sleep(1.0)


if __name__ == "__main__":
    asyncio.run(flood(*sys.argv[1:]))
