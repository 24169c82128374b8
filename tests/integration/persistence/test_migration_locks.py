"""No revision keeps writers of a table waiting for as long as it takes to read or write the table's rows.

A table is filled as soon as a revision has made it, so that each later one meets rows. ``AES_TEST_MIGRATED_ROWS`` says
how many; how long revisions took, and locks were held, is printed (``-s``).
"""

import asyncio
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from sqlalchemy import Connection, Engine, event

from libs.persistence._migrations import configuration_of
from tests.support.generated_rows import fill

ROOT = Path(__file__).parents[3]
SERVICES = sorted(file.parent for file in (ROOT / "services").glob("*/migrations"))
ROWS = int(os.environ.get("AES_TEST_MIGRATED_ROWS", "3000"))
# Rows of catalogues of our own that a revision may look at, such as amounts.
FEW = 100
# Modes that a writer waits for. A partition counts as the table that it belongs to.
LOCKED = """
    SELECT coalesce(pg_partition_root(c.oid), c.oid)::regclass::text, max(l.mode)
    FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
    WHERE l.pid = pg_backend_pid() AND l.granted AND c.relkind IN ('r', 'p')
      AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    GROUP BY 1
"""
WORK = """
    SELECT coalesce(pg_partition_root(relid), relid)::regclass::text,
           sum(seq_tup_read + coalesce(idx_tup_fetch, 0) + n_tup_ins + n_tup_upd + n_tup_del)::bigint,
           array_agg(pg_relation_filenode(relid))
    FROM pg_stat_xact_user_tables GROUP BY 1
"""
# Outside of a transaction, where nothing is held for longer than the statement.
HARMLESS = re.compile(
    r"\s*(CREATE (UNIQUE )?INDEX CONCURRENTLY|DROP INDEX CONCURRENTLY|ALTER INDEX|ALTER TABLE \w+ VALIDATE|SET |RESET"
    r"|SELECT|WITH|INSERT)",
    re.IGNORECASE,
)
# Values that the constraints of a table demand together.
VALUES = {
    "files": {"blob_id": "'b' || n"},
    "budgets": {"cost": "n"},
    "company_amounts": {"amount": "1"},
    "timeline_events": {"day": "(now() AT TIME ZONE 'UTC')::date"},
}
"""By name of the table."""


@dataclass
class Watch:
    """Looks on as the statements of revisions are executed."""

    filled: set[str]
    findings: list[str] = field(default_factory=list)
    revision: str = ""
    _locked_at: dict[str, float] = field(default_factory=dict)
    _nodes: dict[str, set[int]] = field(default_factory=dict)
    _worked: dict[str, int] = field(default_factory=dict)

    def executing(self, connection: Connection) -> None:
        driver = _driver(connection)
        # The counters begin before the transaction.
        self._worked = {} if driver.autocommit else {table: rows for table, rows, _ in driver.execute(WORK)}

    def executed(self, connection: Connection, statement: str) -> None:
        driver = _driver(connection)
        if driver.autocommit:
            if not HARMLESS.match(statement):
                self.findings.append(f"{self.revision}: in a transaction of its own: {statement.strip()[:100]}")
            return
        locked = {table: mode for table, mode in driver.execute(LOCKED) if table in self.filled}
        for table in locked:
            self._locked_at.setdefault(table, time.monotonic())
        for table, rows, nodes in driver.execute(WORK) if locked else ():
            worked, rewritten = rows - self._worked.get(table, 0), not self._nodes.get(table, set()) <= set(nodes)
            self._nodes[table] = set(nodes)
            if table in self.filled and (worked > FEW or rewritten):
                what = f"{table}, {worked} rows{', written anew' if rewritten else ''}"
                self.findings.append(f"{self.revision}: {what}, while writers wait for {locked}: {statement.strip()}")

    def ended(self) -> None:
        for table, since in self._locked_at.items():
            print(f"{self.revision}: {table} locked for {(time.monotonic() - since) * 1000:.0f} ms", flush=True)
        self._locked_at.clear()

    def fill(self, url: str) -> None:
        """Fills the tables that are new."""
        with psycopg.connect(url, autocommit=True) as connection:
            names = connection.execute(
                """SELECT relid::regclass::text FROM pg_stat_user_tables t JOIN pg_class c ON c.oid = relid
                   WHERE t.relname <> 'alembic_version' AND NOT relispartition ORDER BY 1"""
            ).fetchall()
            for name in {name for (name,) in names} - self.filled:
                fill(connection, name, ROWS, VALUES.get(name))
                self.filled.add(name)
            self._nodes = {table: set(nodes) for table, _, nodes in connection.execute(WORK)}


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    def executing(connection: Connection, *_: Any) -> None:
        watch.executing(connection)

    def executed(connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        watch.executed(connection, statement)

    def ended(_: Connection) -> None:
        watch.ended()

    listeners = (("before_cursor_execute", executing), ("after_cursor_execute", executed), ("commit", ended))
    for name, listener in listeners:
        event.listen(Engine, name, listener)
    yield
    for name, listener in listeners:
        event.remove(Engine, name, listener)


def migrate_watched(url: str, service: Path) -> list[str]:
    config, watch = configuration_of(url, service / "migrations"), Watch(filled=set())
    for file in sorted((service / "migrations" / "versions").glob("[0-9]*.py")):
        watch.revision = file.stem
        began = time.monotonic()
        with watching(watch):
            command.upgrade(config, file.stem[:4])
        print(f"{service.name} {file.stem}: {time.monotonic() - began:.1f} s", flush=True)
        watch.fill(url)
    return watch.findings


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
async def test_writers_wait_for_no_work_on_rows(service: Path, database_url: str) -> None:
    assert await asyncio.to_thread(migrate_watched, database_url, service) == []


@pytest.mark.slow(covered_by="test_writers_wait_for_no_work_on_rows")
@pytest.mark.parametrize("partitions", [False, True], ids=["one table", "partitions"])
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE things ADD COLUMN made text DEFAULT md5(random()::text)",
        "ALTER TABLE things ALTER COLUMN number TYPE bigint",
        "ALTER TABLE things ADD CONSTRAINT ck_things CHECK (number > 0)",
        "ALTER TABLE things ALTER COLUMN note SET NOT NULL",
        "CREATE INDEX ix_things ON things (number)",
        "ALTER TABLE things ADD COLUMN other text; UPDATE things SET other = note",
    ],
)
async def test_such_work_is_noticed(statement: str, partitions: bool, database_url: str, tmp_path: Path) -> None:
    made = "CREATE TABLE things (id integer PRIMARY KEY, number integer NOT NULL, note text DEFAULT '')"
    if partitions:
        made += " PARTITION BY RANGE (id)"
        made += "; CREATE TABLE things_20260101 PARTITION OF things FOR VALUES FROM (MINVALUE) TO (MAXVALUE)"
    revisions = {"0001": made, "0002": statement}
    (versions := tmp_path / "migrations" / "versions").mkdir(parents=True)
    for number, sql in revisions.items():
        before = None if number == "0001" else "0001"
        (versions / f"{number}_step.py").write_text(
            f"from alembic import op\nrevision = {number!r}\ndown_revision = {before!r}\n\n\n"
            f"def upgrade() -> None:\n    for each in {sql.split('; ')!r}:\n        op.execute(each)\n"
        )
    [found] = await asyncio.to_thread(migrate_watched, database_url, tmp_path)
    assert "things" in found
