"""`aes bench growth`: what work and reads take in an empty system and in one that has grown, in turns."""

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
    """Medians of the rounds in ms by what was done, without and with the sessions, and of the rounds' ratios."""

    sessions: int
    bytes_of_a_session: float
    empty: Mapping[str, float]
    grown: Mapping[str, float]
    ratios: Mapping[str, float]


async def run(sessions: int, rounds: int, say: Say) -> Grown:
    """Measures two systems in turns, one of which has the sessions: a machine's speed changes while these are added.

    Everything that was started is ended and removed.
    """
    homes = [benchmark_home(f"growth-{name}") for name in ("empty", "grown")]
    for home in homes:
        await asyncio.to_thread(remove, home)
        home.create()
    try:
        async with open_bench(homes[0], ("aes",)) as empty, open_bench(homes[1], ("aes",)) as grown:
            for bench in (empty, grown):
                await _figures(bench)
            each = await _grow(homes[1], sessions, say)
            for bench in (empty, grown):
                await _figures(bench)
            found = [await _round(empty, grown, number, say) for number in range(rounds)]
    finally:
        for home in homes:
            await asyncio.shield(asyncio.to_thread(remove, home))
    names = found[0][0].keys()
    return Grown(
        sessions,
        each,
        {name: median(before[name] for before, _ in found) for name in names},
        {name: median(after[name] for _, after in found) for name in names},
        {name: median(after[name] / before[name] for before, after in found) for name in names},
    )


async def _grow(home: Home, sessions: int, say: Say) -> float:
    """Adds the sessions; returns the bytes of each."""
    postgres = postgres_of(home, Credentials.load_or_create(home.credentials_file))
    stores = Stores(postgres.url("runtime"), postgres.url("gateway"))
    company_id, owner_id = _owner(stores.runtime)
    before = stores.bytes()
    sample = min(_SAMPLE, sessions)
    await asyncio.to_thread(stores.add, company_id, owner_id, 1, sample)
    each = (stores.bytes() - before) / sample
    _check_space(home, each * sessions)
    say(f"adding {sessions:,} sessions of {each:,.0f} bytes each")
    await asyncio.to_thread(stores.add, company_id, owner_id, sample + 1, sessions)
    await asyncio.to_thread(stores.settle)
    return each


async def _round(empty: Bench, grown: Bench, number: int, say: Say) -> tuple[dict[str, float], dict[str, float]]:
    say(f"round {number + 1}")
    # Whoever comes second in one round comes first in the next.
    if number % 2:
        after = await _figures(grown)
        return await _figures(empty), after
    return await _figures(empty), await _figures(grown)


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


async def _figures(bench: Bench) -> dict[str, float]:
    plan = FULL.only(_SCENARIOS)
    windows = [await bench.measure(plan, scenario, "aes", 0) for scenario in plan.scenarios]
    return {each.scenario: each.p50 for each in windows} | await _reads(bench)


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
