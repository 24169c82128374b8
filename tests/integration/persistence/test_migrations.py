"""Migrations: once, by one, and never back."""

import asyncio
import sys
from pathlib import Path

import psycopg
import pytest

from libs.persistence import IncompatibleSchema, _migrations, is_migrated, migrate
from tests.support import sample_owner
from tests.support.waiting import until

MIGRATIONS = Path(sample_owner.__file__).parent / "migrations"


async def tables(url: str) -> set[str]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        rows = await connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return {row[0] for row in await rows.fetchall()}


async def test_two_at_once_both_succeed(database_url: str) -> None:
    await asyncio.gather(*(asyncio.to_thread(migrate, database_url, MIGRATIONS) for _ in range(2)))
    ours = {"outbox", "inbox", "event_sequences", "task_leases", "notes"}
    assert await tables(database_url) == {"alembic_version", *ours}


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


LIBRARY = "from libs.eventing.schema import create_eventing_tables"
FIRST = f"""
from alembic import op
{LIBRARY}
revision, down_revision = "0001", None
def upgrade():
    op.execute("CREATE TABLE things (id bigint PRIMARY KEY)")
"""
SECOND = """
from alembic import op
revision, down_revision = "0002", "0001"
def upgrade():
    op.execute("ALTER TABLE things ADD COLUMN name text")
"""


def written(folder: Path, first: str) -> Path:
    (folder / "versions").mkdir(exist_ok=True)
    (folder / "versions" / "0001_things.py").write_text(first)
    return folder


async def test_a_revision_that_waits_for_a_lock_lets_others_pass_and_tries_again(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []
    upgrade = _migrations._upgrade

    def counted(url: str, migrations: Path) -> None:
        tries.append(url)
        upgrade(url, migrations)

    folder = written(tmp_path, FIRST)
    await asyncio.to_thread(migrate, database_url, folder)
    monkeypatch.setattr(_migrations, "_upgrade", counted)
    (folder / "versions" / "0002_names.py").write_text(SECOND)
    async with await psycopg.AsyncConnection.connect(database_url) as reader:
        await reader.execute("SELECT FROM things LIMIT 1")
        migrating = asyncio.create_task(asyncio.to_thread(migrate, database_url, folder))
        await until(lambda: len(tries) >= 2)
    await migrating
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute("SELECT name FROM things")


@pytest.mark.parametrize(
    "first",
    [
        FIRST.replace("bigint", "uuid"),
        FIRST.replace("libs.eventing.schema import create_eventing_tables", "typing import Any"),
    ],
    ids=["its own table", "those of a library"],
)
async def test_a_database_of_another_first_revision_is_refused(database_url: str, tmp_path: Path, first: str) -> None:
    await asyncio.to_thread(migrate, database_url, written(tmp_path, first))
    written(tmp_path, FIRST)
    for ask in (migrate, is_migrated):
        with pytest.raises(IncompatibleSchema, match=r"run `\./aes down --purge`"):
            await asyncio.to_thread(ask, database_url, tmp_path)


async def test_a_database_of_before_first_revisions_were_told_apart_is_refused(
    database_url: str, tmp_path: Path
) -> None:
    await asyncio.to_thread(migrate, database_url, written(tmp_path, FIRST))
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute("UPDATE alembic_version SET version_num = '0020'")
        await connection.execute("ALTER TABLE alembic_version DROP COLUMN origin")
    with pytest.raises(IncompatibleSchema):
        await asyncio.to_thread(migrate, database_url, tmp_path)


async def test_comments_and_layout_of_the_first_revision_and_later_ones_change_nothing(
    database_url: str, tmp_path: Path
) -> None:
    await asyncio.to_thread(migrate, database_url, written(tmp_path, FIRST))
    laid_out = FIRST.replace('"CREATE TABLE things (id', '"CREATE TABLE things "\n        "(id')
    written(tmp_path, f'"""Things."""\n# In rows.\n{laid_out}')
    (tmp_path / "versions" / "0002_names.py").write_text(SECOND)
    await asyncio.to_thread(migrate, database_url, tmp_path)
    assert await asyncio.to_thread(is_migrated, database_url, tmp_path)
