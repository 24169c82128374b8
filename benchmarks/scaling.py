"""`aes bench growth`: how long turns, reads, searches and purges take in an empty system and in a grown one."""

import asyncio
import logging
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from statistics import median
from typing import Any, Final

import httpx
import psycopg
import structlog
from aes_client import Client

from benchmarks.report import Result
from benchmarks.scaling_rows import (
    DAYS,
    EVENTS_OF_A_TURN,
    FIRST_EXPIRED,
    LEAST_FREE_BYTES,
    TURNS_OF_A_SESSION,
    KnowledgeBase,
    Rows,
    Sessions,
    Stores,
)
from benchmarks.search import Prose
from benchmarks.stack import Say, own_home, stack_postgres
from benchmarks.turns import FULL, Bench, open_bench
from deploy.local.errors import StackError
from deploy.local.home import Home
from libs.eventing import Outbox, Retention
from libs.persistence import Database
from services.runtime.adapters.postgres.expiry import EXPIRIES
from services.runtime.adapters.postgres.retention import PostgresRetentionReads
from services.runtime.bootstrap import ENTITIES
from services.runtime.use_cases.retention import OldSessions, SessionRetention
from services.timeline.adapters.postgres.partitions import PostgresTimelinePartitions

GOAL: Final = 1.1
"""The maximum ratio of the grown system's figure to the empty system's."""
_SAMPLE: Final = 2_000
# The space that must be free afterwards: a minimum, the write-ahead log, and the data that measurements add.
_SPARE_BYTES: Final = LEAST_FREE_BYTES + 2 * 10**9
_READS, _SEARCHES, _PURGES = 200, 100, 4
_SCENARIOS: Final = ("turns-1", "turns-16")
# The events and dirty pages of a purge must not affect the next measurement.
_SETTLE_SECONDS: Final = 5.0
_WHILE_FILLING: Final = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}
_EXPIRED_ROWS, _EXPIRED_SESSIONS, _SESSIONS_OF_A_DAY, _EXPIRED_DAYS = 5_000, 300, 100, 5
_KEPT_DAYS: Final = 35
_AGE: Final = timedelta(days=45)


@dataclass
class Purges:
    """Measures how the services' code removes expired rows."""

    rows: Rows
    _numbers: Iterator[int] = field(default_factory=count)
    _retention: Retention = field(default_factory=Retention)

    def __post_init__(self) -> None:
        for each in EXPIRIES:
            self._retention.add(each, _KEPT_DAYS)
        self._retention.register_subject_tables(*ENTITIES)

    async def measure(self) -> dict[str, float]:
        """Adds expired rows and removes them. Returns the times in milliseconds, by kind of row."""
        number = next(self._numbers)
        rows = replace(self.rows, name=f"x{number:04}-", begin=datetime.now(UTC) - _AGE)
        async with database_at(self.rows.stores.runtime) as runtime, database_at(self.rows.stores.timeline) as timeline:
            rows.add_sessions(1, _EXPIRED_SESSIONS)
            sessions = await self._remove_sessions(runtime)
            # The rows have other subjects than the removed sessions, which leave tombstones.
            others = replace(rows, name=f"{rows.name}o")
            others.add_outbox_rows(1, _EXPIRED_ROWS, FIRST_EXPIRED + number * _EXPIRED_ROWS)
            outbox = await self._remove_outbox_rows(runtime)
            day = await _drop_days(timeline, rows)
        events = _SESSIONS_OF_A_DAY * TURNS_OF_A_SESSION * EVENTS_OF_A_TURN
        return {
            f"purge of 100 sessions of {TURNS_OF_A_SESSION} turns": sessions,
            f"purge of {_EXPIRED_ROWS:,} outbox rows": outbox,
            f"purge of a day of {events:,} events": day,
        }

    async def _remove_sessions(self, database: Database) -> float:
        """Removes expired sessions. Returns a batch's median time in milliseconds."""
        removed: list[int] = []
        retention = SessionRetention(PostgresRetentionReads(database), _KEPT_DAYS)
        old = OldSessions(Outbox(database), retention, on_removed=removed.append)
        times, has_more = [], True
        while has_more:
            before, began = sum(removed), time.perf_counter()
            has_more = await old.remove_batch()
            if sum(removed) > before:
                times.append(1000 * (time.perf_counter() - began))
        return median(times)

    async def _remove_outbox_rows(self, database: Database) -> float:
        """Removes expired rows from the runtime's tables. Returns the total time in milliseconds."""
        async with database.connection() as connection:
            began = time.perf_counter()
            while await self._retention.purge(connection):
                pass
            return 1000 * (time.perf_counter() - began)


async def _drop_days(database: Database, rows: Rows) -> float:
    """Returns the mean time for dropping a day, in milliseconds, over several days with equally many events."""
    partitions, last = PostgresTimelinePartitions(database), (datetime.now(UTC) - _AGE).date()
    # This also creates the day before and three days after.
    await partitions.make(last - timedelta(days=_EXPIRED_DAYS - 2))
    for number in range(_EXPIRED_DAYS):
        # Positions start at 1, so no reader sees these events.
        rows.add_events(1, _SESSIONS_OF_A_DAY, last - timedelta(days=number), head=-(10**9))
    began = time.perf_counter()
    await partitions.drop_before(last + timedelta(days=1))
    return 1000 * (time.perf_counter() - began) / _EXPIRED_DAYS


@asynccontextmanager
async def database_at(url: str) -> AsyncIterator[Database]:
    database = Database(url, name="bench-growth", plan_once=True, timeout=30.0)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


@dataclass(frozen=True)
class System:
    """A stack with a typical knowledge base. ``times`` contains the last times in milliseconds, by operation."""

    bench: Bench
    home: Home
    client: httpx.AsyncClient
    purges: Purges
    base: KnowledgeBase
    times: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    @asynccontextmanager
    async def prepared(cls, name: str) -> AsyncIterator["System"]:
        async with own_home(f"growth-{name}") as (home, children), open_bench(home, children, ("aes",)) as bench:
            postgres, address = stack_postgres(home), f"{bench.stack.base_url}/api/v1"
            with psycopg.connect(postgres.administrator_url, autocommit=True) as connection:
                connection.execute("GRANT SET ON PARAMETER session_replication_role TO runtime")
            stores = Stores(postgres.url("runtime"), postgres.url("timeline"), postgres.url("ingestion"), home.root)
            stores.reserve_outbox_ids()
            base_id = await asyncio.to_thread(_create_knowledge_base, bench.stack.base_url, bench.stack.api_key)
            base = await asyncio.to_thread(KnowledgeBase.find, stores, base_id)
            headers = {"x-api-key": bench.stack.api_key}
            async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60, trust_env=False) as client:
                me = (await client.get("/me/")).raise_for_status().json()
                yield cls(bench, home, client, Purges(Rows(stores, me["company_id"], me["user_id"])), base)

    async def work(self, name: str) -> None:
        plan = FULL.only(name)
        self.note({name: (await self.bench.measure(plan, plan.scenarios[0], "aes", 0)).p50})

    async def requests(self) -> dict[str, list[httpx.Request]]:
        """Returns the requests to measure, by name."""
        found = (await self.client.get("/sessions/?limit=1")).raise_for_status().json()
        newest = found["sessions"][0]["session_id"]
        paths = {
            "session": f"/sessions/{newest}/",
            "list of sessions": "/sessions/?limit=50",
            "history": f"/runtime/{newest}/messages/",
            "timeline": "/events/?limit=50",
            "timeline of a session": f"/events/?session_id={newest}&limit=50",
        }
        requests = {name: [self.client.build_request("GET", path)] * _READS for name, path in paths.items()}
        for mode in ("semantic", "keyword", "hybrid"):
            prose, path = Prose(), f"/knowledge-bases/{self.base.id}/search/"
            queries = [{"query": prose.query(), "mode": mode} for _ in range(_SEARCHES)]
            requests[f"{mode} search"] = [self.client.build_request("POST", path, json=each) for each in queries]
        return requests

    async def ask(self, name: str, request: httpx.Request) -> None:
        began = time.perf_counter()
        (await self.client.send(request)).raise_for_status()
        self.note({name: 1000 * (time.perf_counter() - began)})

    def note(self, times: Mapping[str, float]) -> None:
        for name, took in times.items():
            self.times.setdefault(name, []).append(took)


def _create_knowledge_base(base_url: str, api_key: str) -> str:
    """Returns the ID of a new, ingested knowledge base of generated files."""
    prose = Prose()
    with Client(base_url, api_key) as client:
        texts = [" ".join(prose.chunk() for _ in range(5)) for _ in range(300)]
        ids = [client.files.upload(text.encode(), name=f"{number}.txt").id for number, text in enumerate(texts)]
        settings: Any = {"strategy": "fixed_size", "split_by": "word", "chunk_size": 240}
        base = client.knowledge_bases.create(name="growth", file_ids=ids, chunking_strategy=settings)
        client.knowledge_bases.wait(base.id)
        return base.id


async def run(sessions: int, rounds: int, say: Say) -> Result:
    """Compares an empty system with one that has the sessions and as many passages."""
    # Parts of the services run in this process and would log their work.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    async with System.prepared("empty") as empty, System.prepared("grown") as grown:
        passages, size = await _grow(grown, sessions, say)
        say("warming up")
        await _measure((empty, grown))
        found = [await _round(empty, grown, number, say) for number in range(rounds)]
    return result(sessions, passages, size, found)


def result(
    sessions: int, passages: int, size: int, found: Sequence[tuple[dict[str, float], dict[str, float]]]
) -> Result:
    """``found`` contains each round's times in milliseconds, by operation, without and with the sessions."""
    names = found[0][0].keys()
    empty = {name: median(before[name] for before, _ in found) for name in names}
    grown = {name: median(after[name] for _, after in found) for name in names}
    ratios = {name: median(after[name] / before[name] for before, after in found) for name in names}
    title = f"p50 in ms with {sessions:,} sessions and {passages:,} passages, {size / 1e9:.1f} GB; goal {GOAL}"
    figures = {"empty": empty, "grown": grown, "ratios": ratios, "goal": GOAL}
    return Result(
        {"sessions": sessions, "passages": passages, "bytes": size, **figures},
        {title: [{"": name, "empty": empty[name], "grown": grown[name], "ratio": ratios[name]} for name in names]},
    )


async def _grow(system: System, number: int, say: Say) -> tuple[int, int]:
    """Adds the sessions and as many passages. Returns the number of passages and the bytes added."""
    rows, base = system.purges.rows, system.base
    stores = rows.stores
    before, copies, sample = stores.bytes(), max(1, round(number / base.passages)), min(_SAMPLE, number)
    async with database_at(stores.timeline) as database:
        for age in range(DAYS):
            await PostgresTimelinePartitions(database).make(datetime.now(UTC).date() - timedelta(days=age))
    sessions = await asyncio.to_thread(Sessions.planned, rows, number)
    await asyncio.to_thread(sessions.add, 1, sample)
    of_session = (stores.bytes() - before) / sample
    between = stores.bytes()
    await asyncio.to_thread(base.copy, stores, 1, 1)
    needed = of_session * number + (stores.bytes() - between) * copies
    room = shutil.disk_usage(system.home.root).free - _SPARE_BYTES
    if needed > room:
        problem = f"The data needs {needed / 1e9:.0f} GB, but only {room / 1e9:.0f} GB is available."
        raise StackError(problem, "Choose a smaller --scale.")
    say(f"adding {number:,} sessions and {copies * base.passages:,} passages, {needed / 1e9:.1f} GB")
    with _unsafe_writes(system.home):
        await asyncio.to_thread(sessions.add, sample + 1, number)
        await asyncio.to_thread(base.copy, stores, 2, copies)
        await asyncio.to_thread(stores.settle)
    return (copies + 1) * base.passages, stores.bytes() - before


@contextmanager
def _unsafe_writes(home: Home) -> Iterator[None]:
    """Turns off crash safety while data is added, because a crash would end the benchmark anyway."""
    with psycopg.connect(stack_postgres(home).administrator_url, autocommit=True) as connection:
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
    # Data that isn't flushed now would be written during a measurement.
    os.sync()


async def _round(empty: System, grown: System, number: int, say: Say) -> tuple[dict[str, float], dict[str, float]]:
    # The systems take turns at being measured first.
    await _measure((grown, empty) if number % 2 else (empty, grown))
    before, after = ({name: median(times) for name, times in each.times.items()} for each in (empty, grown))
    say(f"round {number + 1}  " + "  ".join(f"{name} {after[name] / before[name]:.2f}" for name in before))
    return before, after


async def _measure(systems: Sequence[System]) -> None:
    """Measures each operation on all systems before the next operation, because the machine's speed changes."""
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
            system.note(await system.purges.measure())
            await asyncio.sleep(_SETTLE_SECONDS)
