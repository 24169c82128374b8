"""Every list costs the same however long it is: rows and blocks that PostgreSQL reads for a page are bounded.

``AES_TEST_LIST_ENTRIES`` says how long the lists are; times are printed (``-s``).
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, cast

import psycopg
import pytest

from libs.contracts.identity import Identity
from libs.contracts.pages import COUNTED, Page
from libs.contracts.resources.knowledge_bases import SearchFilters
from libs.contracts.timeline import TimelineFilter
from libs.eventing import Outbox
from libs.persistence import Connection, Database, migrate
from services.artifacts.adapters.postgres.artifacts import PostgresArtifactReader
from services.gateway.adapters.postgres.connections import PostgresConnections
from services.gateway.adapters.postgres.keys import PostgresKeys
from services.ingestion.adapters.postgres.collections import PostgresCollectionReader
from services.ingestion.adapters.postgres.files import PostgresFileReader, PostgresSearchableFiles
from services.ingestion.adapters.postgres.knowledge_bases import PostgresKnowledgeBaseReader
from services.ingestion.domain.files import FileFilter
from services.registry.adapters.postgres.agents import PostgresAgentReader
from services.runtime.adapters.postgres.session_reads import PostgresSessionReads
from services.timeline.adapters.postgres.timeline import MOST_LOOKED_AT, PostgresTimeline
from services.timeline.adapters.postgres.webhooks import PostgresWebhookReader
from tests.support.generated_rows import fill

SERVICES = Path(__file__).parents[3] / "services"
ENTRIES = int(os.environ.get("AES_TEST_LIST_ENTRIES", "30000"))
LIMIT = 50
# What is counted, and for each entry of the page itself, its place in the index and what belongs to it.
MOST_ROWS = COUNTED + 1 + LIMIT * 30
# Mostly the index alone; for tags, rows as well.
MOST_BLOCKS = 5_000
COMPANY = "11111111-1111-1111-1111-111111111111"
USER = "22222222-2222-2222-2222-222222222222"
EVERYBODY = Identity(company_id=COMPANY, user_id=USER, key_id="k", scopes=frozenset({"company:read"}))
ONE = Identity(company_id=COMPANY, user_id=USER, key_id="k", scopes=frozenset())
# Every tenth row is one user's.
OWNER = f"CASE WHEN n % 10 = 0 THEN '{USER}' ELSE 'other ' || n % 50 END"
OWNER_ID = f"CASE WHEN n % 10 = 0 THEN '{USER}' ELSE md5((n % 50)::text) END::uuid"
OF_COMPANY = {"company_id": f"'{COMPANY}'", "created_at": "now() - n * interval '1 second'"}
Read = Callable[[], Awaitable[Any]]

pytestmark = pytest.mark.slow(
    covered_by=(
        "integration/persistence/test_pages.py::test_the_last_page_costs_what_the_first_one_does",
        "integration/persistence/test_pages.py::test_no_more_than_ten_thousand_are_counted",
    )
)


# Of this transaction, so that nobody else's reads count: those of tables and indexes that are no system's.
_READS = """
    SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(oid)) FILTER (WHERE relkind IN ('r', 'i')), 0)::bigint,
           sum(pg_stat_get_xact_blocks_fetched(oid))::bigint
    FROM pg_class WHERE relkind IN ('r', 'i', 't') AND oid >= 16384
"""


class MeasuredDatabase(Database):
    """Hands out the connection of one transaction while it counts what is read in it."""

    _counting: Connection | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        if self._counting is not None:
            yield self._counting
            return
        async with super().connection() as connection:
            yield connection

    async def reads(self, read: Read) -> tuple[Any, int, int]:
        """The result, with the numbers of rows and blocks that were read for it."""
        async with super().transaction() as connection:
            # Some reads ask for this level, which they can't raise any more once something was counted.
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            self._counting = connection
            try:
                before = await self._counts(connection)
                found = await read()
                after = await self._counts(connection)
            finally:
                self._counting = None
        return found, after[0] - before[0], after[1] - before[1]

    async def _counts(self, connection: Connection) -> tuple[int, int]:
        [counts] = await (await connection.execute(_READS)).fetchall()
        return counts


@dataclass
class Store:
    """A migrated database, and what was read of it. A pool of one, which plans once for all."""

    url: str
    database: MeasuredDatabase
    findings: list[str] = field(default_factory=list)

    async def fill(self, table: str, rows: int, **values: str) -> None:
        def fill_it() -> None:
            with psycopg.connect(self.url, autocommit=True) as connection:
                # What is committed later than it is answered cannot be marked as visible to all yet.
                connection.execute("SET synchronous_commit = on")
                fill(connection, table, rows, values)
                connection.execute(f"VACUUM (ANALYZE) {table}".encode())

        await asyncio.to_thread(fill_it)

    async def look_at(self, name: str, read: Read, *, rows: int = MOST_ROWS) -> Any:
        """Reads once more than it counts, as the first time reads the catalogue."""
        await read()
        found, read_rows, blocks = await self.database.reads(read)
        seconds = []
        for _ in range(5):
            began = time.perf_counter()
            await read()
            seconds.append(time.perf_counter() - began)
        report = f"{name}: {read_rows} rows, {blocks} blocks"
        print(f"{report}, {median(seconds) * 1000:.1f} ms", flush=True)
        if read_rows > rows or blocks > MOST_BLOCKS:
            self.findings.append(report)
        return found

    async def look_at_pages(self, name: str, page: Callable[..., Awaitable[Any]], *, rows: int = MOST_ROWS) -> None:
        """The first page, and one from the middle of the list."""
        first = await self.look_at(f"{name}, first", lambda: page(limit=LIMIT, offset=0), rows=rows)
        assert _entries(first), name
        middle = await page(limit=1, offset=ENTRIES // 25)
        read = partial(page, limit=LIMIT, offset=0, cursor=middle.next)
        behind = await self.look_at(f"{name}, middle", read, rows=rows)
        assert _entries(behind), name


def _entries(page: Any) -> list[Any]:
    if isinstance(page, Page):
        return page.items
    return next(value for _, value in page if isinstance(value, list))


@asynccontextmanager
async def store(url: str, service: str, *, plan_once: bool = False) -> AsyncIterator[Store]:
    await asyncio.to_thread(migrate, url, SERVICES / service / "migrations")
    database = MeasuredDatabase(url, name=service, max_size=1, plan_once=plan_once)
    await database.open()
    found = Store(url, database)
    yield found
    await database.close()
    assert found.findings == []


async def test_lists_of_the_runtime(database_url: str) -> None:
    async with store(database_url, "runtime", plan_once=True) as data:
        reads = PostgresSessionReads(data.database)
        agent = "CASE WHEN n % 100 = 0 THEN 'other agent' ELSE 'agent' END"
        await data.fill("sessions", ENTRIES, id="'s' || n", owner_id=OWNER, agent_id=agent, **OF_COMPANY)
        # As many that are in no list.
        await data.fill("sessions", ENTRIES, id="'unlisted' || n", owner_id=OWNER, listed="false", **OF_COMPANY)
        await data.fill("messages", ENTRIES, session_id="'s1'", position="n", id="'m' || n", turn_id="'t' || n / 2")
        status = "CASE WHEN n % 1000 = 0 THEN 'failed' ELSE 'completed' END"
        await data.fill(
            "turns", ENTRIES, id="'t' || n", session_id="'s' || 1 + n % 1000", status=status, position="n",
            finished_at="now() - n * interval '1 second'", **OF_COMPANY,
        )  # fmt: skip
        payload = """'{"tool_call": {"id": "call", "name": "ask", "arguments": {}}}'"""
        await data.fill(
            "waits", ENTRIES, turn_id="'t' || n", session_id="'s1'", owner_id=OWNER, payload=payload, kind="'approval'",
            **OF_COMPANY,
        )  # fmt: skip
        for who in (EVERYBODY, ONE):
            seen = "of the company" if who.reads_company else "of a user"
            await data.look_at_pages(f"sessions {seen}", partial(reads.sessions, who))
            await data.look_at_pages(f"actions {seen}", partial(reads.actions, who, kind=None, session_id=None))
        # Those of a session are all counted.
        await data.look_at_pages("messages", partial(reads.messages, "s1", EVERYBODY), rows=ENTRIES + MOST_ROWS)


async def test_lists_of_ingestion(database_url: str) -> None:
    async with store(database_url, "ingestion") as data:
        files, bases = PostgresFileReader(data.database), PostgresKnowledgeBaseReader(data.database)
        collections = PostgresCollectionReader(data.database)
        await data.fill(
            "files", ENTRIES, id="'f' || n", blob_id="'b' || n", name="'report ' || n || '.txt'", **OF_COMPANY,
            status="CASE WHEN n % 10 = 0 THEN 'inactive' ELSE 'active' END", size="100",
            tags="CASE WHEN n % 10 = 0 THEN ARRAY['rare'] ELSE ARRAY['usual'] END",
        )  # fmt: skip
        settings = """'{"engine": "pgvector", "chunking": {}, "provider": "p", "model": "m", "dimensions": 1}'"""
        await data.fill("collections", ENTRIES, id="'c' || n", **OF_COMPANY)
        # The long one is the oldest: lists of collections count the files of those on the page.
        await data.fill("collection_files", ENTRIES, collection_id=f"'c{ENTRIES}'", file_id="'f' || n")
        await data.fill("collection_files", ENTRIES, collection_id="'c' || 10 + n / 10", file_id="'f' || n")
        await data.fill("collection_files", 100, collection_id="'c2'", file_id="'f' || n * 100")
        await data.fill("knowledge_bases", ENTRIES, id="'k' || n", settings=settings, **OF_COMPANY)
        await data.look_at_pages("files", partial(files.page, COMPANY, FileFilter()))
        for name, which in (
            ("status", FileFilter(status="inactive")),
            ("tag", FileFilter(tag="rare")),
            ("a long collection", FileFilter(collection_id=f"c{ENTRIES}")),
            ("a name", FileFilter(name="report")),
        ):
            await data.look_at_pages(f"files of {name}", partial(files.page, COMPANY, which))
        few = FileFilter(collection_id="c2")
        await data.look_at("files of a short collection", lambda: files.page(COMPANY, few, limit=LIMIT, offset=0))
        await data.look_at_pages("collections", partial(collections.page, COMPANY))
        await data.look_at_pages("knowledge bases", partial(bases.page, COMPANY))


async def test_the_files_that_a_search_leaves_out(database_url: str) -> None:
    async with store(database_url, "ingestion") as data:
        await data.fill(
            "files", ENTRIES, id="'f' || n", blob_id="'b' || n", **OF_COMPANY,
            status="CASE WHEN n % 1000 = 0 THEN 'inactive' ELSE 'active' END",
        )  # fmt: skip
        await data.fill("ingestion_items", ENTRIES, index_id="'i'", file_id="'f' || n", run_id="'r'")
        select = partial(PostgresSearchableFiles(data.database).select, COMPANY, "i", SearchFilters())
        left_out = ENTRIES // 1000
        found = await data.look_at("files that a search leaves out", select, rows=5 * left_out)
        assert len(found.without) == left_out


async def test_lists_of_artifacts(database_url: str) -> None:
    async with store(database_url, "artifacts") as data:
        await data.fill("sessions", 10, id="'s' || n")
        await data.fill("blobs", 1, id="'b' || n", state="'stored'", sha256="'x'")
        await data.fill(
            "artifacts", ENTRIES, id="'a' || n", session_id="'s1'", blob_id="'b1'", size="1", sha256="'x'",
            created_at="now() - n * interval '1 second'",
        )  # fmt: skip
        await data.look_at_pages("artifacts", partial(PostgresArtifactReader(data.database).page, "s1"))


async def test_lists_of_the_registry(database_url: str) -> None:
    async with store(database_url, "registry") as data:
        await data.fill("agents", 10, id="'a' || n")
        await data.fill("agent_versions", ENTRIES, agent_id="'a1'", version_number="n || '.0.0'")
        await data.look_at_pages("versions", partial(PostgresAgentReader(data.database).versions, "a1"))


async def test_lists_of_the_gateway(database_url: str) -> None:
    async with store(database_url, "gateway") as data:
        outbox = cast(Outbox, None)  # nothing is written
        keys, connections = PostgresKeys(data.database, outbox), PostgresConnections(data.database, outbox)
        await data.fill("api_keys", ENTRIES, user_id=OWNER_ID, **OF_COMPANY)
        await data.fill("connections", ENTRIES, user_id=OWNER_ID, **OF_COMPANY)
        for who in (EVERYBODY, ONE):
            seen = "of the company" if who.reads_company else "of a user"
            await data.look_at_pages(f"keys {seen}", partial(keys.keys, who))
            await data.look_at_pages(f"connections {seen}", partial(connections.connections, who))


async def test_lists_of_webhooks(database_url: str) -> None:
    async with store(database_url, "timeline", plan_once=True) as data:
        await data.fill("webhook_deliveries", ENTRIES, webhook_id=f"'{COMPANY}'", status="'delivered'")
        await data.look_at_pages("deliveries", partial(PostgresWebhookReader(data.database).deliveries, COMPANY))


async def test_the_timeline(database_url: str) -> None:
    async with store(database_url, "timeline", plan_once=True) as data:
        await data.fill(
            "timeline_events", ENTRIES, company_id=f"'{COMPANY}'", position="n", owner_id=OWNER,
            session_id="'s' || n % 100", day=f"(now() AT TIME ZONE 'UTC')::date - 1 + n * 3 / {ENTRIES}",
            type="CASE WHEN n % 1000 = 0 THEN 'turn.failed' ELSE 'turn.completed' END",
        )  # fmt: skip
        await data.fill("timeline_counters", 1, company_id=f"'{COMPANY}'", position=str(ENTRIES))
        timeline, middle = PostgresTimeline(data.database), ENTRIES // 2
        for name, where in (
            ("all", {}),
            ("of a session", {"session_id": "s7"}),
            ("of a user", {"visible_to": USER}),
            ("of a rare type", {"types": ("turn.failed",)}),
            ("of no type", {"types": ("nothing",)}),
        ):
            wanted = TimelineFilter(company_id=COMPANY, **where)
            for after in (0, middle):
                read = partial(timeline.page, wanted, after=after, limit=LIMIT)
                await data.look_at(f"events {name} after {after}", read, rows=4 * MOST_LOOKED_AT)
            for before in (None, middle):
                read = partial(timeline.page_back, wanted, before=before, limit=LIMIT)
                await data.look_at(f"events {name} before {before}", read, rows=4 * MOST_LOOKED_AT)
