"""Measures readers of the timeline: `python -m benchmarks.timeline`, two minutes on a quiet machine.

Starts a stack of its own beside the one in use. Says what an idle reader costs the gateway, and how long after its time
an event has reached a reader while turns are executed at a steady rate.
"""

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle
from typing import Any, Final

import httpx
import psutil

from benchmarks.children import Children
from benchmarks.cpu import cpu_seconds
from benchmarks.stack import BenchmarkStack, benchmark_home, remove, whole_stack
from deploy.local.home import Home

_SESSIONS: Final = 64
_WARM_UP_TURNS: Final = 200
_SETTLE_SECONDS: Final = 3.0
_OPENED_AT_ONCE: Final = 50


@dataclass(frozen=True)
class Target:
    """A gateway to be measured."""

    port: int
    api_key: str
    process: psutil.Process

    def client(self) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=200)
        address = f"http://127.0.0.1:{self.port}/api/v1"
        return httpx.AsyncClient(
            base_url=address, headers={"x-api-key": self.api_key}, limits=limits, timeout=60, trust_env=False
        )


async def idle_readers(target: Target, count: int, seconds: float) -> dict[str, float]:
    """Returns kilobytes of each idle reader, and per cent of a core of all of them beyond an idle gateway."""
    before = await _cpu_share(target, seconds)
    memory = target.process.memory_info().rss
    async with AsyncExitStack() as opened:
        for begun in range(0, count, _OPENED_AT_ONCE):
            several = range(min(_OPENED_AT_ONCE, count - begun))
            await asyncio.gather(*(opened.enter_async_context(_reader(target)) for _ in several))
        await asyncio.sleep(_SETTLE_SECONDS)
        used = (target.process.memory_info().rss - memory) / count / 1024
        share = await _cpu_share(target, seconds)
    return {"readers": count, "kilobytes_each": round(used, 1), "per_cent_of_a_core": round(share - before, 2)}


async def latencies(target: Target, rate: float, seconds: float) -> dict[str, float]:
    """Returns milliseconds from the time of an event to its arrival at a reader, and the rate of turns reached."""
    async with target.client() as client:
        sessions = [await _session(client) for _ in range(_SESSIONS)]
        await _execute(client, sessions, rate, _WARM_UP_TURNS)
        found: list[float] = []
        following = asyncio.create_task(_follow(client, found))
        await asyncio.sleep(1)
        began = time.perf_counter()
        turns = int(rate * seconds)
        await _execute(client, sessions, rate, turns)
        elapsed = time.perf_counter() - began
        await asyncio.sleep(1)
        following.cancel()
    return {"turns_per_second": round(turns / elapsed, 1), "events": len(found), **_quantiles(found)}


def _quantiles(found: Sequence[float]) -> dict[str, float]:
    ordered = sorted(found)
    return {f"p{share}_ms": round(1000 * ordered[len(ordered) * share // 100], 1) for share in (50, 90, 99)}


async def _cpu_share(target: Target, seconds: float) -> float:
    before, began = cpu_seconds({"gateway": target.process})["gateway"], time.perf_counter()
    await asyncio.sleep(seconds)
    used = cpu_seconds({"gateway": target.process})["gateway"] - before
    return 100 * used / (time.perf_counter() - began)


@asynccontextmanager
async def _reader(target: Target) -> AsyncIterator[None]:
    """An open stream of which nothing is read: it costs the reader's own process next to nothing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
    writer.write(
        b"GET /api/v1/events/?type=nothing.happens HTTP/1.1\r\nHost: gateway\r\nAccept: text/event-stream\r\n"
        b"x-api-key: " + target.api_key.encode() + b"\r\n\r\n"
    )
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(f"a reader was refused: {head.decode(errors='replace')}")
    try:
        yield
    finally:
        writer.close()


async def _session(client: httpx.AsyncClient) -> str:
    made = await client.post("/sessions/", json={"name": "Measured", "agent_type": "llm_agent"})
    return str(made.raise_for_status().json()["session_id"])


async def _execute(client: httpx.AsyncClient, sessions: Sequence[str], rate: float, turns: int) -> None:
    """Begins turns at that rate, however long each takes."""
    began, running = time.perf_counter(), []
    for number, session in zip(range(turns), cycle(sessions), strict=False):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        running.append(asyncio.create_task(client.post(f"/runtime/{session}/execute/", json={"content": "Hello"})))
    for answer in await asyncio.gather(*running):
        answer.raise_for_status()


async def _follow(client: httpx.AsyncClient, found: list[float]) -> None:
    headers = {"accept": "text/event-stream"}
    async with client.stream("GET", "/events/", headers=headers, timeout=None) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                event: dict[str, Any] = json.loads(line.removeprefix("data: "))
                found.append((datetime.now(UTC) - datetime.fromisoformat(event["time"])).total_seconds())


@asynccontextmanager
async def _own_stack(home: Home) -> AsyncIterator[BenchmarkStack]:
    children = Children(f"{home.root}:timeline", home.log_of("benchmark"))
    children.end_left_behind()
    async with children.model_stub() as (_, model_url), whole_stack(home, model_url) as stack:
        yield stack


async def measure(readers: int, rate: float, seconds: float) -> dict[str, dict[str, float]]:
    home = benchmark_home("timeline-benchmark")
    await asyncio.to_thread(remove, home)
    home.create()
    try:
        async with _own_stack(home) as stack:
            target = Target(stack.gateway_port, stack.api_key, stack.processes["gateway"])
            return {
                "idle": await idle_readers(target, readers, seconds),
                "latency": await latencies(target, rate, seconds),
            }
    finally:
        await asyncio.shield(asyncio.to_thread(remove, home))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure readers of the timeline.")
    parser.add_argument("--readers", type=int, default=1000, help="idle ones (%(default)s)")
    parser.add_argument("--rate", type=float, default=100.0, help="turns a second (%(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement (%(default)s)")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options.readers, options.rate, options.seconds)), indent=2))


if __name__ == "__main__":
    main()
