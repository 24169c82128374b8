"""Every service's database goes from its first revision to the newest with data in it, while the old release writes."""

import asyncio
import re
from itertools import count
from pathlib import Path

import psycopg
import pytest
from alembic import command

from libs.persistence import migrate
from libs.persistence._migrations import configuration_of
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
SERVICES = sorted(file.parent for file in (ROOT / "services").glob("*/migrations"))
# What the release before still uses goes in the release after, when nobody does.
BREAKING = re.compile(
    r"drop_column|drop_table|drop_constraint|rename_table|new_column_name|\btype_="
    r"|DROP (TABLE|COLUMN|CONSTRAINT)|RENAME (TO|COLUMN)|ALTER COLUMN \w+ (TYPE|SET NOT NULL)",
    re.IGNORECASE,
)
INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX \w+\s+ON (\w+)")


def at_first_revision(url: str, service: Path) -> None:
    command.upgrade(configuration_of(url, service / "migrations"), "0001")


async def write(connection: psycopg.AsyncConnection[tuple[object, ...]], number: int) -> None:
    """The common part of every service's transactions: an event, and a message that took effect."""
    async with connection.transaction():
        await connection.execute(
            "INSERT INTO outbox (event_id, type, topic, subject, sequence, company_id, correlation_id, terminal,"
            " payload) VALUES (%s, 'aes.t.v1', 't', 's', %s, 'c', 'r', false, 'x')",
            (str(number), number),
        )
        await connection.execute("INSERT INTO inbox (consumer, message_id) VALUES ('t', %s)", (str(number),))


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
async def test_a_database_is_migrated_under_a_writer(service: Path, database_url: str) -> None:
    await asyncio.to_thread(at_first_revision, database_url, service)
    written = 0

    async def go_on() -> None:
        nonlocal written
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
            for written in count(1):
                await write(connection, written)

    writing = asyncio.create_task(go_on())
    await until(lambda: written > 20)
    await asyncio.to_thread(migrate, database_url, service / "migrations")
    done = written
    await until(lambda: written > done + 20)
    assert not writing.done()
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)

    newest = max(file.stem[:4] for file in (service / "migrations" / "versions").glob("[0-9]*.py"))
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        row = await (
            await connection.execute(
                "SELECT version_num, (SELECT count(*) FROM outbox), (SELECT count(*) FROM inbox) FROM alembic_version"
            )
        ).fetchone()
    assert row is not None
    assert row[0] == newest
    assert row[1] == row[2] >= done


@pytest.mark.parametrize(
    "revision",
    [file for service in SERVICES for file in sorted((service / "migrations" / "versions").glob("[0-9]*.py"))],
    ids=lambda file: f"{file.parents[2].name}-{file.stem}",
)
def test_a_revision_leaves_the_release_before_it_working(revision: Path) -> None:
    upgrade = revision.read_text().split("def downgrade")[0]
    assert BREAKING.search(upgrade) is None, "add now, remove a release later"
    for column in re.findall(r"add_column\((.*?)\)\n", upgrade, re.DOTALL):
        assert "nullable=False" not in column or "server_default" in column


@pytest.mark.parametrize(
    "revision",
    [file for service in SERVICES for file in sorted((service / "migrations" / "versions").glob("[0-9]*.py"))],
    ids=lambda file: f"{file.parents[2].name}-{file.stem}",
)
def test_an_index_of_a_table_in_use_is_built_concurrently(revision: Path) -> None:
    text = revision.read_text()
    new = set(re.findall(r"CREATE TABLE (\w+)", text))
    assert set(INDEX.findall(text)) <= new, "use libs.persistence.index_builds"
