"""`aes bench growth`: what work and reads take in an empty system and in one that has grown, in one run."""

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

import httpx
import psycopg

from benchmarks.grown_rows import Stores
from benchmarks.scenarios import FULL
from benchmarks.stack import benchmark_home, remove
from benchmarks.turns import Bench, open_bench
from deploy.local.credentials import Credentials
from deploy.local.errors import StackError
from deploy.local.home import Home
from deploy.local.stack import postgres_of

GOAL: Final = 1.1
"""Most that a figure of the grown system may be, times the empty one's."""
_SAMPLE: Final = 2_000
_MOST_BYTES: Final = 40 * 10**9
_SPARE_BYTES: Final = 10 * 10**9
_READS: Final = 200
_SCENARIOS: Final = ["turns-1", "turns-16"]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Grown:
    """Medians in ms by what was done, without and with the sessions."""

    sessions: int
    bytes_of_a_session: float
    empty: Mapping[str, float]
    grown: Mapping[str, float]

    def ratios(self) -> dict[str, float]:
        return {name: self.grown[name] / self.empty[name] for name in self.empty}


async def run(sessions: int, rounds: int, say: Say) -> Grown:
    """Measures, adds the sessions, measures again. Everything that was started is ended and removed."""
    home = benchmark_home("growth-benchmark")
    await asyncio.to_thread(remove, home)
    home.create()
    try:
        async with open_bench(home, ("aes",)) as bench:
            return await _measure(bench, home, sessions, rounds, say)
    finally:
        await asyncio.shield(asyncio.to_thread(remove, home))


async def _measure(bench: Bench, home: Home, sessions: int, rounds: int, say: Say) -> Grown:
    postgres = postgres_of(home, Credentials.load_or_create(home.credentials_file))
    stores = Stores(postgres.url("runtime"), postgres.url("gateway"))
    await _figures(bench, 1)
    say("measuring the empty system")
    empty = await _figures(bench, rounds)
    company_id, owner_id = _owner(stores.runtime)
    before = stores.bytes()
    await asyncio.to_thread(stores.add, company_id, owner_id, 1, _SAMPLE)
    each = (stores.bytes() - before) / _SAMPLE
    _check_space(home, each * sessions)
    say(f"adding {sessions:,} sessions of {each:,.0f} bytes each")
    await asyncio.to_thread(stores.add, company_id, owner_id, _SAMPLE + 1, sessions)
    await asyncio.to_thread(stores.settle)
    say("measuring the grown system")
    await _figures(bench, 1)
    return Grown(sessions, each, empty, await _figures(bench, rounds))


def _check_space(home: Home, needed: float) -> None:
    room = min(_MOST_BYTES, shutil.disk_usage(home.root).free - _SPARE_BYTES)
    if needed > room:
        raise StackError(f"That would take {needed / 1e9:.0f} GB, of {room / 1e9:.0f}.", "Choose a smaller --scale.")


def _owner(url: str) -> tuple[str, str]:
    """Company and user of the benchmark's key, whose reads are measured."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT company_id, owner_id FROM sessions LIMIT 1").fetchone()
    assert row is not None
    return str(row[0]), str(row[1])


async def _figures(bench: Bench, rounds: int) -> dict[str, float]:
    plan = FULL.only(_SCENARIOS)
    windows = [await bench.measure(plan, each, "aes", number) for number in range(rounds) for each in plan.scenarios]
    turns = {name: median(each.p50 for each in windows if each.scenario == name) for name in _SCENARIOS}
    return {**turns, **await _reads(bench)}


async def _reads(bench: Bench) -> dict[str, float]:
    """Pages and histories of the newest session, which a turn of the benchmark has just ended in."""
    address = f"http://127.0.0.1:{bench.ports['aes']}/api/v1"
    headers = {"x-api-key": bench.api_key}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60, trust_env=False) as client:
        newest = (await client.get("/sessions/?limit=1")).raise_for_status().json()["sessions"][0]["session_id"]
        paths = {
            "session": f"/sessions/{newest}/",
            "list of sessions": "/sessions/?limit=50",
            "history": f"/runtime/{newest}/messages/",
            "timeline": "/events/?limit=50",
            "timeline of a session": f"/events/?session_id={newest}&limit=50",
        }
        return {name: await _read(client, path) for name, path in paths.items()}


async def _read(client: httpx.AsyncClient, path: str) -> float:
    times = []
    for _ in range(_READS):
        began = time.perf_counter()
        (await client.get(path)).raise_for_status()
        times.append(1000 * (time.perf_counter() - began))
    return median(times)
