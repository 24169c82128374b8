"""Amounts of companies, counted by triggers on a real database."""

import asyncio
import random
from pathlib import Path

import pytest

from libs.contracts.errors import QuotaExceeded
from libs.persistence import Connection, Database
from libs.quotas import CompanyAmounts, CompanyLimits
from services.ingestion.bootstrap import MIGRATIONS

LIMITS = CompanyLimits({"files": 5, "file_bytes": 1000}, {"large": {"files": None}})
ADD = """
    INSERT INTO blobs (id, company_id, state, sha256) VALUES (%(id)s, %(company)s, 'stored', %(id)s);
    INSERT INTO files (id, company_id, blob_id, name, content_type, size, sha256, created_by)
    VALUES (%(id)s, %(company)s, %(id)s, 'n', 't', %(size)s, %(id)s, 'u')
"""
DELETE = "UPDATE files SET blob_id = NULL, deleted_at = now() WHERE id = %s"
COUNTED = """
    SELECT company_id, count(*), sum(size)::bigint FROM files WHERE deleted_at IS NULL GROUP BY company_id
"""


@pytest.fixture
def migrations() -> Path:
    return MIGRATIONS


@pytest.fixture
def amounts(database: Database) -> CompanyAmounts:
    return CompanyAmounts(database, LIMITS, ["files", "file_bytes"])


async def add(database: Database, file_id: str, company: str = "acme", size: int = 10) -> None:
    async with database.transaction() as connection:
        await add_in(connection, file_id, company, size)


async def add_in(connection: Connection, file_id: str, company: str, size: int) -> None:
    for statement in ADD.split(";"):
        await connection.execute(statement, {"id": file_id, "company": company, "size": size})


async def test_rows_are_counted_when_they_come_and_when_they_go(database: Database, amounts: CompanyAmounts) -> None:
    await add(database, "f1", size=10)
    await add(database, "f2", size=32)
    assert await amounts.used("acme") == {"files": 2, "file_bytes": 42}
    await database.execute("UPDATE files SET tags = '{a}', status = 'inactive'")
    assert await amounts.used("acme") == {"files": 2, "file_bytes": 42}
    await database.execute(DELETE, ("f1",))
    assert await amounts.used("acme") == {"files": 1, "file_bytes": 32}
    # Its tombstone counts for nothing, and so does the end of that.
    await database.execute("DELETE FROM files WHERE id = 'f1'")
    assert await amounts.used("acme") == {"files": 1, "file_bytes": 32}
    assert await amounts.used("other") == {"files": 0, "file_bytes": 0}


async def test_what_is_rolled_back_does_not_count(database: Database, amounts: CompanyAmounts) -> None:
    async def fail() -> None:
        async with database.transaction() as connection:
            await add_in(connection, "f", "acme", 1)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await amounts.used("acme") == {"files": 0, "file_bytes": 0}


async def test_folding_changes_no_amount(database: Database, amounts: CompanyAmounts) -> None:
    for number in range(20):
        await add(database, f"f{number}", company=f"c{number % 3}", size=number)
    await database.execute(DELETE, ("f0",))
    await database.execute(DELETE, ("f1",))
    before = [await amounts.used(f"c{number}") for number in range(3)]
    assert await amounts.fold()
    assert [await amounts.used(f"c{number}") for number in range(3)] == before
    assert not await amounts.fold()
    rows = await database.value("SELECT count(*) FROM company_amounts")
    assert rows == 6


async def test_a_backlog_of_one_company_is_folded_by_parts(database: Database, amounts: CompanyAmounts) -> None:
    """In one statement a long one would exceed the time of statements, and nothing would be folded any more."""
    change = (
        "INSERT INTO company_amounts (company_id, name, amount) SELECT 'acme', 'files', 1 FROM generate_series(1, 2500)"
    )
    await database.execute(change)
    left = []
    while await amounts.fold():
        left.append(await database.value("SELECT count(*) FROM company_amounts WHERE NOT folded"))
        assert (await amounts.used("acme"))["files"] == 2500
    assert left == [1500, 500, 0]
    assert await database.value("SELECT count(*) FROM company_amounts") == 1


@pytest.mark.rule(37)
async def test_writers_and_folding_at_once_keep_the_amounts_right(database: Database, amounts: CompanyAmounts) -> None:
    """Several writers of the same companies, in any order, with two processes that fold."""
    chance = random.Random(7)
    ended = False

    async def write(writer: int) -> None:
        for number in range(60):
            await add(database, f"{writer}-{number}", company=f"c{chance.randrange(2)}", size=chance.randrange(100))
            if chance.random() < 0.4:
                await database.execute(DELETE, (f"{writer}-{chance.randrange(number + 1)}",))

    async def fold() -> None:
        while not ended:
            await amounts.fold()

    folding = [asyncio.create_task(fold()) for _ in range(2)]
    await asyncio.gather(*(write(writer) for writer in range(4)))
    ended = True
    await asyncio.gather(*folding)
    for company, files, size in await database.execute(COUNTED):
        assert await amounts.used(company) == {"files": files, "file_bytes": size}


async def test_what_exceeds_a_limit_is_refused_with_what_and_how_much(
    database: Database, amounts: CompanyAmounts
) -> None:
    for number in range(4):
        await add(database, f"f{number}", size=200)

    async def check(company: str, **wanted: int) -> None:
        async with database.transaction() as connection:
            await amounts.check(connection, company, wanted)

    await check("acme", files=1, file_bytes=200)
    with pytest.raises(QuotaExceeded) as refused:
        await check("acme", files=1, file_bytes=201)
    assert refused.value.details[0].limit.model_dump() == {"name": "file_bytes", "limit": 1000, "used": 800}
    with pytest.raises(QuotaExceeded, match=r"limit for files \(4 of 5 in use\)"):
        await check("acme", files=2, file_bytes=0)
    await check("large", files=100)


async def test_excess_is_what_a_transaction_has_stored_too_much(database: Database, amounts: CompanyAmounts) -> None:
    for number in range(4):
        await add(database, f"f{number}")
    async with database.transaction() as connection:
        for number in range(3):
            await add_in(connection, f"n{number}", "acme", 1)
        excess = await amounts.excess(connection, ["acme", "other"], "files")
    assert {company: each.by for company, each in excess.items()} == {"acme": 2}
