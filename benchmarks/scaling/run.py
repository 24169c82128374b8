"""`aes bench growth`: what work, reads, searches and purges take in an empty system and in one that has grown."""

import asyncio
import logging
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Final

import httpx
import psycopg
import structlog

from benchmarks.scaling.passages import KnowledgeBase, create_knowledge_base, searches
from benchmarks.scaling.purge import PurgeTimes
from benchmarks.scaling.rows import DAYS, LEAST_FREE_BYTES, Sessions, Stores
from benchmarks.scenarios import FULL
from benchmarks.stack import benchmark_home, remove
from benchmarks.turns import Bench, cancel_on_termination, open_bench
from deploy.local.credentials import Credentials
from deploy.local.errors import StackError
from deploy.local.home import Home
from deploy.local.stack import postgres_of
from libs.persistence import Database
from services.gateway.adapters.postgres.timeline_partitions import PostgresTimelinePartitions

GOAL: Final = 1.1
"""Most that a figure of the grown system may be, times the empty one's."""
_SAMPLE: Final = 2_000
# Beside what is to stay free: the log of writes, and what the measurement itself adds.
_SPARE_BYTES: Final = LEAST_FREE_BYTES + 2 * 10**9
_READS: Final = 200
_PURGES: Final = 4
_SCENARIOS: Final = ["turns-1", "turns-16"]
# What a purge leaves behind, its events and its dirty pages, is no part of what is measured next.
_SETTLE_SECONDS: Final = 5.0
_WHILE_FILLING: Final = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}
Say = Callable[[str], None]


@dataclass(frozen=True)
class Grown:
    """Medians of the rounds in ms by what was done, without and with the sessions, and of the rounds' ratios."""

    sessions: int
    passages: int
    bytes: int
    """Size of the sessions and passages."""
    empty: Mapping[str, float]
    grown: Mapping[str, float]
    ratios: Mapping[str, float]


@dataclass(frozen=True)
class System:
    """A stack with a knowledge base of ordinary size. ``times``: what was measured last, in ms, by what was done."""

    bench: Bench
    home: Home
    client: httpx.AsyncClient
    stores: Stores
    company_id: str
    owner_id: str
    knowledge_base_id: str
    purge_times: PurgeTimes
    times: dict[str, list[float]]

    @classmethod
    @asynccontextmanager
    async def prepared(cls, bench: Bench, home: Home) -> AsyncIterator["System"]:
        postgres = postgres_of(home, Credentials.load_or_create(home.credentials_file))
        with psycopg.connect(postgres.administrator_url, autocommit=True) as connection:
            connection.execute("GRANT SET ON PARAMETER session_replication_role TO runtime")
        stores = Stores(postgres.url("runtime"), postgres.url("gateway"), postgres.url("ingestion"), home.root)
        stores.reserve_outbox_ids()
        knowledge_base_id = await asyncio.to_thread(create_knowledge_base, bench.ports["aes"], bench.api_key)
        async with _client(bench) as client:
            me = (await client.get("/me/")).raise_for_status().json()
            company_id, owner_id = me["company_id"], me["user_id"]
            purge_times = PurgeTimes(stores, company_id, owner_id)
            yield cls(bench, home, client, stores, company_id, owner_id, knowledge_base_id, purge_times, {})

    async def work(self, name: str) -> None:
        plan = FULL.only([name])
        [scenario] = plan.scenarios
        self.note({name: (await self.bench.measure(plan, scenario, "aes", 0)).p50})

    async def requests(self) -> dict[str, list[httpx.Request]]:
        """Pages and histories of the newest session, which a turn of the benchmark has just ended in, and searches."""
        found = (await self.client.get("/sessions/?limit=1")).raise_for_status().json()
        newest = found["sessions"][0]["session_id"]
        paths = {
            "session": f"/sessions/{newest}/",
            "list of sessions": "/sessions/?limit=50",
            "history": f"/runtime/{newest}/messages/",
            "timeline": "/events/?limit=50",
            "timeline of a session": f"/events/?session_id={newest}&limit=50",
        }
        reads = {name: [self.client.build_request("GET", path)] * _READS for name, path in paths.items()}
        return reads | searches(self.client, self.knowledge_base_id)

    async def ask(self, name: str, request: httpx.Request) -> None:
        began = time.perf_counter()
        (await self.client.send(request)).raise_for_status()
        self.note({name: 1000 * (time.perf_counter() - began)})

    async def purge(self) -> None:
        self.note(await self.purge_times.measure())

    def note(self, times: Mapping[str, float]) -> None:
        for name, took in times.items():
            self.times.setdefault(name, []).append(took)

    def medians(self) -> dict[str, float]:
        return {name: median(times) for name, times in self.times.items()}


async def run(sessions: int, rounds: int, say: Say) -> Grown:
    """Measures two systems in turns, one of which has the sessions and as many passages of other knowledge bases.

    Everything that was started is ended and removed.
    """
    cancel_on_termination()
    # Parts of services run in this process, which tell of what they do.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    homes = [benchmark_home(f"growth-{name}") for name in ("empty", "grown")]
    for home in homes:
        await asyncio.to_thread(remove, home)
        home.create()
    try:
        async with (
            open_bench(homes[0], ("aes",)) as first,
            open_bench(homes[1], ("aes",)) as second,
            System.prepared(first, homes[0]) as empty,
            System.prepared(second, homes[1]) as grown,
        ):
            passages, size = await _grow(grown, sessions, say)
            say("warming up")
            await _measure((empty, grown))
            found = [await _round(empty, grown, number, say) for number in range(rounds)]
    finally:
        for home in homes:
            await asyncio.shield(asyncio.to_thread(remove, home))
    names = found[0][0].keys()
    return Grown(
        sessions,
        passages,
        size,
        {name: median(before[name] for before, _ in found) for name in names},
        {name: median(after[name] for _, after in found) for name in names},
        {name: median(after[name] / before[name] for before, after in found) for name in names},
    )


async def _grow(system: System, count: int, say: Say) -> tuple[int, int]:
    """Adds the sessions and as many passages; returns how many passages there are, and the bytes of it all."""
    stores = system.stores
    before = stores.bytes()
    base = await asyncio.to_thread(KnowledgeBase.find, stores, system.knowledge_base_id)
    copies = max(1, round(count / base.passages))
    await _make_days(stores.gateway)
    sessions = await asyncio.to_thread(Sessions.planned, stores, system.company_id, system.owner_id, count)
    sample = min(_SAMPLE, count)
    await asyncio.to_thread(sessions.add, 1, sample)
    of_session = (stores.bytes() - before) / sample
    between = stores.bytes()
    await asyncio.to_thread(base.copy, stores, 1, 1)
    needed = of_session * count + (stores.bytes() - between) * copies
    room = shutil.disk_usage(system.home.root).free - _SPARE_BYTES
    if needed > room:
        raise StackError(f"That would take {needed / 1e9:.0f} GB, of {room / 1e9:.0f}.", "Choose a smaller --scale.")
    say(f"adding {count:,} sessions and {copies * base.passages:,} passages, {needed / 1e9:.1f} GB")
    with _unsafe_writes(system.home):
        await asyncio.to_thread(sessions.add, sample + 1, count)
        await asyncio.to_thread(base.copy, stores, 2, copies)
        await asyncio.to_thread(sessions.settle)
        await asyncio.to_thread(base.settle, stores)
    return (copies + 1) * base.passages, stores.bytes() - before


@contextmanager
def _unsafe_writes(home: Home) -> Iterator[None]:
    """Nothing is written for the case of a crash, which ends the benchmark anyway."""
    postgres = postgres_of(home, Credentials.load_or_create(home.credentials_file))
    with psycopg.connect(postgres.administrator_url, autocommit=True) as connection:
        for name, value in _WHILE_FILLING.items():
            connection.execute(f"ALTER SYSTEM SET {name} = {value}".encode())
        connection.execute("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            for name in _WHILE_FILLING:
                connection.execute(f"ALTER SYSTEM RESET {name}".encode())
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("CHECKPOINT")
    # What was written while nothing was flushed would be so in the middle of a measurement.
    os.sync()


async def _make_days(url: str) -> None:
    """Partitions of the timeline for all days of the sessions."""
    database = Database(url, name="bench-growth")
    await database.open()
    try:
        for number in range(DAYS):
            await PostgresTimelinePartitions(database).make(datetime.now(UTC).date() - timedelta(days=number))
    finally:
        await database.close()


async def _round(empty: System, grown: System, number: int, say: Say) -> tuple[dict[str, float], dict[str, float]]:
    # Whoever comes second in one round comes first in the next.
    await _measure((grown, empty) if number % 2 else (empty, grown))
    before, after = empty.medians(), grown.medians()
    say(f"round {number + 1}  " + "  ".join(f"{name} {after[name] / before[name]:.2f}" for name in before))
    return before, after


async def _measure(systems: Sequence[System]) -> None:
    """Measures each system anew; everything is done in turns, as the machine's speed changes."""
    for system in systems:
        system.times.clear()
    there_and_back = (*systems, *reversed(systems))
    for name in _SCENARIOS:
        for system in there_and_back:
            await system.work(name)
    requests = [await system.requests() for system in systems]
    for name in requests[0]:
        for of_each in zip(*[found[name] for found in requests], strict=True):
            for system, request in zip(systems, of_each, strict=True):
                await system.ask(name, request)
    for _ in range(_PURGES):
        for system in there_and_back:
            await system.purge()
            await asyncio.sleep(_SETTLE_SECONDS)


@asynccontextmanager
async def _client(bench: Bench) -> AsyncIterator[httpx.AsyncClient]:
    address = f"http://127.0.0.1:{bench.ports['aes']}/api/v1"
    headers = {"x-api-key": bench.api_key}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60, trust_env=False) as client:
        yield client
