"""Indexes built by migrations: while others write, again after an interruption, and with short waits for locks."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from libs.persistence import _migrations, migrate
from tests.support.waiting import until

Connection = psycopg.AsyncConnection[tuple[object, ...]]
TABLE = """
from alembic import op
revision, down_revision = "0001", None
def upgrade():
    op.execute("CREATE TABLE things (id bigint PRIMARY KEY, kind integer, size integer)")
    op.execute("CREATE INDEX ix_things_kind ON things (kind)")
    op.execute("INSERT INTO things SELECT n, n % 100, n FROM generate_series(1, 100000) n")
"""
INDEX = """
from alembic import op
from libs.persistence.index_builds import build_index
revision, down_revision = "0002", "0001"
def upgrade():
    op.execute("ALTER TABLE things ADD COLUMN IF NOT EXISTS name text")
    build_index(op, "ix_things_size", "things (size)")
"""
SUCCESSOR = """
from alembic import op
from libs.persistence.index_builds import replace_index
revision, down_revision = "0002", "0001"
def upgrade():
    replace_index(op, "ix_things_kind", "things (kind, size)")
"""
STATES = (
    "SELECT relname, indisvalid FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE relname LIKE 'ix_things%'"
)


@pytest.fixture
async def folder(database_url: str, tmp_path: Path) -> Path:
    """Migrations whose first one, with a table of many rows, has been run."""
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions" / "0001_table.py").write_text(TABLE)
    await asyncio.to_thread(migrate, database_url, tmp_path)
    return tmp_path


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("SET lock_timeout = '2s'")
        yield connection


async def states(connection: Connection) -> dict[object, object]:
    return {row[0]: row[1] for row in await (await connection.execute(STATES)).fetchall()}


async def waits(connection: Connection, statement: str) -> bool:
    query = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE %s"
    )
    return await (await connection.execute(query, (f"%{statement}%",))).fetchone() != (0,)


async def test_others_write_while_an_index_is_built(folder: Path, database_url: str, connection: Connection) -> None:
    (folder / "versions" / "0002_index.py").write_text(INDEX.replace("op.execute", "#"))
    async with await psycopg.AsyncConnection.connect(database_url) as writer:
        await writer.execute("INSERT INTO things VALUES (0)")
        migrating = [asyncio.create_task(asyncio.to_thread(migrate, database_url, folder)) for _ in range(2)]
        await until(lambda: waits(connection, "CREATE INDEX"), pause=0.05)
        await connection.execute("INSERT INTO things VALUES (-1)")
        await writer.commit()
    await asyncio.gather(*migrating)
    assert await states(connection) == {"ix_things_kind": True, "ix_things_size": True}


async def test_an_interrupted_build_is_done_again(folder: Path, database_url: str, connection: Connection) -> None:
    (folder / "versions" / "0002_index.py").write_text(INDEX)
    await connection.execute("INSERT INTO things VALUES (0, 0, 1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        await connection.execute("CREATE UNIQUE INDEX CONCURRENTLY ix_things_size ON things (size)")
    assert (await states(connection))["ix_things_size"] is False
    await asyncio.to_thread(migrate, database_url, folder)
    assert (await states(connection))["ix_things_size"] is True
    await connection.execute("UPDATE alembic_version SET version_num = '0001'")
    await asyncio.to_thread(migrate, database_url, folder)


async def test_an_index_takes_anothers_place(folder: Path, database_url: str, connection: Connection) -> None:
    (folder / "versions" / "0002_successor.py").write_text(SUCCESSOR)
    for _ in range(2):
        await asyncio.to_thread(migrate, database_url, folder)
        definitions = await (await connection.execute("SELECT indexdef FROM pg_indexes")).fetchall()
        assert await states(connection) == {"ix_things_kind": True}
        assert any("(kind, size)" in str(row[0]) for row in definitions)
        await connection.execute("UPDATE alembic_version SET version_num = '0001'")


async def test_a_revision_that_waits_for_a_lock_lets_others_pass_and_tries_again(
    folder: Path, database_url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []
    upgrade = _migrations._upgrade

    def counted(url: str, migrations: Path) -> None:
        tries.append(url)
        upgrade(url, migrations)

    monkeypatch.setattr(_migrations, "_upgrade", counted)
    (folder / "versions" / "0002_index.py").write_text(INDEX)
    async with await psycopg.AsyncConnection.connect(database_url) as reader:
        await reader.execute("SELECT FROM things LIMIT 1")
        migrating = asyncio.create_task(asyncio.to_thread(migrate, database_url, folder))
        await until(lambda: len(tries) >= 2)
    await migrating
    assert await states(connection) == {"ix_things_kind": True, "ix_things_size": True}
