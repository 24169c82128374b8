"""`aes bench fair`: what a company that floods every queue costs another.

One company takes turns, uploads and has 11 bytes ingested at a steady pace, first alone, then beside another one that
keeps every queue full: turns, streams, uploads, ingestions of text that is slow to cut, and webhooks that fail.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from benchmarks.children import Children
from benchmarks.fair.company import Company, company_at
from benchmarks.figures import percentile
from benchmarks.stack import benchmark_home, remove, whole_stack
from benchmarks.turns import cancel_on_termination
from deploy.local.credentials import Credentials
from deploy.local.errors import StackError
from deploy.local.files import tail
from deploy.local.stack import postgres_of
from services.gateway.administration import administration

GOAL: Final = 2.0
"""Most that a 95th percentile may be beside the flood, times that of the company alone."""
_SETTLE_SECONDS: Final = 10.0
Say = Callable[[str], None]


@dataclass
class Probes:
    """Operations begun at a steady pace, whether or not those before have ended; seconds that each kind took."""

    company: Company
    seconds: dict[str, list[float]] = field(default_factory=dict)
    _begun: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, duration: float) -> dict[str, float]:
        """95th percentiles in seconds, by kind."""
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


async def run(seconds: float, say: Say) -> dict[str, dict[str, float]]:
    """95th percentiles in ms without and with the flood, and their ratio, for each kind of operation.

    Everything that was started is ended and removed.
    """
    cancel_on_termination()
    home = benchmark_home("fair-benchmark")
    await asyncio.to_thread(remove, home)
    home.create()
    try:
        children = Children(f"{home.root}:fair", home.log_of("fair"))
        children.end_left_behind()
        async with children.model_stub() as (_, model_url), whole_stack(home, model_url) as stack:
            url = postgres_of(home, Credentials.load_or_create(home.credentials_file)).url("gateway")
            quiet_key, flooding_key = [await _key_of_new_company(url, name) for name in ("quiet", "flooding")]
            base_url = f"http://127.0.0.1:{stack.gateway_port}"
            async with company_at(base_url, quiet_key) as company:
                probes = Probes(company)
                await probes.run(_SETTLE_SECONDS)
                say("alone")
                quiet = await probes.run(seconds)
                say("beside the flood")
                arguments = ["benchmarks.fair.flood", base_url, flooding_key, f"{model_url}/nothing"]
                async with children.started(arguments) as flooding:
                    await probes.run(_SETTLE_SECONDS)
                    beside = await probes.run(seconds)
                    if flooding.returncode is not None:
                        raise StackError("The flood has ended.", "\n".join(tail(home.log_of("fair"), 15)))
    finally:
        await asyncio.shield(asyncio.to_thread(remove, home))
    return {
        kind: {
            "p95_quiet_ms": round(quiet[kind] * 1000, 1),
            "p95_beside_flood_ms": round(beside[kind] * 1000, 1),
            "ratio": round(beside[kind] / quiet[kind], 2),
        }
        for kind in quiet
    }


async def _key_of_new_company(url: str, name: str) -> str:
    async with administration(url) as gateway:
        await gateway.create_company(name, rate_limit=None)
        await gateway.create_user(name, "someone")
        return (await gateway.create_key(name, "someone")).secret
