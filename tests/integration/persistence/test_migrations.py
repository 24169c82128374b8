"""Migrations: once, by one, and never back."""

import asyncio
import shutil
import sys
from pathlib import Path

import psycopg
import pytest

from libs.persistence import _migrations, migrate
from tests.support import sample_owner

ROOT = Path(__file__).parents[3]
MIGRATIONS = Path(sample_owner.__file__).parent / "migrations"


async def tables(url: str) -> set[str]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        rows = await connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return {row[0] for row in await rows.fetchall()}


async def test_two_at_once_both_succeed(database_url: str) -> None:
    await asyncio.gather(*(asyncio.to_thread(migrate, database_url, MIGRATIONS) for _ in range(2)))
    assert await tables(database_url) == {"alembic_version", "outbox", "inbox", "event_sequences", "notes"}


async def test_two_processes_wait_for_each_other(database_url: str) -> None:
    code = (
        "import sys; from pathlib import Path; from libs.persistence import migrate;"
        " migrate(sys.argv[1], Path(sys.argv[2]))"
    )
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", code, database_url, str(MIGRATIONS))
        for _ in range(2)
    ]
    assert [await process.wait() for process in processes] == [0, 0]
    assert "notes" in await tables(database_url)


async def test_a_current_database_is_left_alone(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await asyncio.to_thread(migrate, database_url, MIGRATIONS)
    monkeypatch.setattr(_migrations, "_upgrade", lambda *_: pytest.fail("alembic was loaded"))
    await asyncio.to_thread(migrate, database_url, MIGRATIONS)


async def test_a_database_ahead_of_the_program_is_left_alone(database_url: str) -> None:
    await asyncio.to_thread(migrate, database_url, MIGRATIONS)
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute("UPDATE alembic_version SET version_num = '0007'")
    await asyncio.to_thread(migrate, database_url, MIGRATIONS)


async def test_a_failing_revision_leaves_nothing(database_url: str, tmp_path: Path) -> None:
    versions = tmp_path / "versions"
    versions.mkdir()
    (versions / "0001_half.py").write_text(
        "from alembic import op\nrevision = '0001'\ndown_revision = None\n"
        "def upgrade():\n    op.execute('CREATE TABLE half (id int)')\n    op.execute('SELECT nonsense')\n"
    )
    with pytest.raises(Exception, match="nonsense"):
        await asyncio.to_thread(migrate, database_url, tmp_path)
    assert "half" not in await tables(database_url)


async def test_constraints_are_named_by_convention(database_url: str) -> None:
    await asyncio.to_thread(migrate, database_url, MIGRATIONS)
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        rows = await connection.execute(
            "SELECT conname FROM pg_constraint WHERE contype IN ('p', 'u') AND connamespace = 'public'::regnamespace"
        )
        names = {row[0] for row in await rows.fetchall()}
    assert {"pk_outbox", "pk_inbox", "pk_notes", "uq_outbox_subject_sequence"} <= names


@pytest.mark.parametrize("service", ["gateway", "registry", "runtime", "ingestion"])
async def test_an_inbox_without_companies_gets_them_and_keeps_its_rows(
    database_url: str, service: str, tmp_path: Path
) -> None:
    versions = tmp_path / "versions"
    versions.mkdir()
    revisions = sorted((ROOT / "services" / service / "migrations" / "versions").glob("[0-9]*.py"))
    names = [revision.stem for revision in revisions]
    here = next(place for place, name in enumerate(names) if name.endswith("companies_in_the_inbox"))
    for revision in revisions[:here]:
        shutil.copy(revision, versions)
    await asyncio.to_thread(migrate, database_url, tmp_path)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("ALTER TABLE inbox DROP COLUMN company_id")
        await connection.execute("INSERT INTO inbox (consumer, message_id) VALUES ('commands', 'old')")
        shutil.copy(revisions[here], versions)
        await asyncio.to_thread(migrate, database_url, tmp_path)
        rows = await connection.execute("SELECT consumer, message_id, company_id FROM inbox")
        assert await rows.fetchall() == [("commands", "old", None)]
