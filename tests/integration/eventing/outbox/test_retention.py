"""Old rows of outbox and inbox go, in batches and without one table's failure keeping the other's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import LiteralString

import pytest

from libs.eventing import Retention
from libs.persistence import Connection, fetch_value
from tests.integration.eventing.outbox.conftest import all_published
from tests.support.event_owner import EventOwner
from tests.support.waiting import until

ROWS = """
    INSERT INTO outbox (event_id, type, topic, subject, sequence, company_id, correlation_id, terminal, payload,
                        created_at, published_at)
    SELECT 'e' || n, 'note.taken', 'notes-events', %s, n, 'c', 'c', false, '{}',
           now() - make_interval(days => %s), now()
    FROM generate_series(1, %s) n
"""
MESSAGES = """
    INSERT INTO inbox (consumer, message_id, company_id, received_at)
    SELECT 'c', %s || n, 'c', now() - make_interval(days => %s) FROM generate_series(1, %s) n
"""


async def keep(owner: EventOwner, retention: Retention) -> bool:
    async with owner.database.connection() as connection:
        return await retention.purge(connection)


async def until_done(owner: EventOwner, retention: Retention) -> None:
    while await keep(owner, retention):
        pass


async def pages_read(connection: Connection, table: str) -> int:
    """The number of pages of the table's indexes that this transaction has read. Nobody else's reads count."""
    reads = "SELECT sum(pg_stat_get_xact_blocks_fetched(indexrelid))::int FROM pg_index WHERE indrelid = %s::regclass"
    return int(await fetch_value(connection, reads, (table,)))


@pytest.mark.rule(18)
async def test_old_rows_are_purged_and_waiting_ones_kept(owner: EventOwner) -> None:
    owner.run()
    await owner.emit("s", "old")
    await all_published(owner)
    owner.producer.down = True
    await owner.emit("t", "waiting")
    await owner.database.execute("UPDATE outbox SET created_at = created_at - interval '9 days'")
    await owner.database.execute(MESSAGES, ("old", 9, 1))
    await owner.database.execute(MESSAGES, ("new", 0, 1))
    await until_done(owner, Retention())
    await owner.relay.sweep()
    assert await owner.rows("SELECT subject FROM outbox") == [("t",)]
    assert await owner.rows("SELECT message_id FROM inbox") == [("new1",)]
    assert owner.relay.waiting == 1
    assert owner.relay.oldest > 8 * 86400


async def test_batches_go_on_after_rows_that_stay(owner: EventOwner) -> None:
    await owner.database.execute(ROWS, ("waiting", 9, 250))
    await owner.database.execute("UPDATE outbox SET published_at = NULL")
    await owner.database.execute(ROWS, ("old", 9, 250))
    await owner.database.execute(ROWS, ("new", 1, 250))
    await owner.database.execute(MESSAGES, ("old", 9, 250))
    await until_done(owner, Retention(rows=100))
    assert await owner.rows("SELECT subject, count(*) FROM outbox GROUP BY 1 ORDER BY 1") == [
        ("new", 250),
        ("waiting", 250),
    ]
    assert await owner.rows("SELECT count(*) FROM inbox") == [(0,)]


async def test_young_rows_are_not_read(owner: EventOwner) -> None:
    await owner.database.execute(ROWS, ("new", 1, 20_000))
    await owner.database.execute("VACUUM ANALYZE outbox")
    async with owner.database.transaction() as connection:
        await Retention(rows=100).purge(connection)
        # By this transaction.
        read = await fetch_value(connection, "SELECT pg_stat_get_xact_tuples_returned('pk_outbox'::regclass)")
    assert 0 < read <= 101


@asynccontextmanager
async def scans_of_indexes(owner: EventOwner) -> AsyncIterator[Connection]:
    """A transaction that reads along indexes.

    Nothing is marked as dead in them that it deletes itself: whoever goes there again reads all of it again.
    """
    async with owner.database.transaction() as connection:
        await connection.execute("SET LOCAL enable_seqscan = off")
        await connection.execute("SET LOCAL enable_bitmapscan = off")
        yield connection


async def test_rows_that_are_gone_are_not_read_again_by_the_batches_after(owner: EventOwner) -> None:
    for days in range(50, 10, -1):
        await owner.database.execute(MESSAGES, (f"old{days}-", days, 100))
    async with scans_of_indexes(owner) as connection:
        retention, read, goes_on = Retention(rows=100, slice_seconds=0.0), [], True
        while goes_on:
            read.append(await pages_read(connection, "inbox"))
            goes_on = await retention.purge(connection)
    of_each = [after - before for before, after in pairwise(read)]
    assert 0 < sum(of_each[-10:]) < 1.2 * sum(of_each[1:11]), "pages of indexes, by batch"
    assert await owner.rows("SELECT count(*) FROM inbox") == [(0,)]


@pytest.mark.parametrize(("table", "rows"), [("inbox", MESSAGES), ("outbox", ROWS)])
async def test_a_pass_does_not_read_again_what_earlier_ones_have_deleted(
    owner: EventOwner, table: str, rows: LiteralString
) -> None:
    retention, read = Retention(), []
    async with scans_of_indexes(owner) as connection:
        for days in range(20, 10, -1):
            await connection.execute(rows, (f"old{days}-", days, 2000))
            before = await pages_read(connection, table)
            while await retention.purge(connection):
                pass
            read.append(await pages_read(connection, table) - before)
    assert 0 < sum(read[-3:]) < 1.2 * sum(read[1:4]), "pages of indexes, by pass"
    assert await owner.rows(f"SELECT count(*) FROM {table}") == [(0,)]


async def test_what_stays_is_looked_at_again_by_the_next_pass(owner: EventOwner) -> None:
    await owner.database.execute(ROWS, ("waiting", 9, 5))
    await owner.database.execute("UPDATE outbox SET published_at = NULL")
    await owner.database.execute(ROWS, ("old", 9, 20))
    retention = Retention(rows=4)
    await until_done(owner, retention)
    assert await owner.rows("SELECT DISTINCT subject FROM outbox") == [("waiting",)]
    await owner.database.execute("UPDATE outbox SET published_at = now()")
    await until_done(owner, retention)
    assert await owner.rows("SELECT count(*) FROM outbox") == [(0,)]


async def test_a_day_later_a_pass_begins_at_the_first_row(owner: EventOwner) -> None:
    retention = Retention()
    await owner.database.execute(ROWS, ("old", 9, 5))
    await until_done(owner, retention)
    await owner.database.execute("ALTER TABLE outbox ALTER id RESTART WITH 1")
    await owner.database.execute(ROWS, ("came back", 9, 5))
    await until_done(owner, retention)
    assert await owner.rows("SELECT count(*) FROM outbox") == [(5,)]
    retention._from_first_at = 0.0
    await until_done(owner, retention)
    assert await owner.rows("SELECT count(*) FROM outbox") == [(0,)]


async def test_young_rows_with_ids_below_those_of_old_ones_go_when_they_are_old(owner: EventOwner) -> None:
    await owner.database.execute(ROWS, ("young", 1, 5))
    await owner.database.execute(ROWS, ("old", 9, 5))
    retention = Retention()
    await until_done(owner, retention)
    assert await owner.rows("SELECT DISTINCT subject FROM outbox") == [("young",)]
    await owner.database.execute("UPDATE outbox SET created_at = created_at - interval '8 days'")
    await until_done(owner, retention)
    assert await owner.rows("SELECT count(*) FROM outbox") == [(0,)]


@pytest.mark.parametrize("change", ["published_at = NULL", "created_at = now()"])
async def test_a_message_that_is_to_be_sent_again_while_the_purge_waits_for_it_stays(
    owner: EventOwner, change: LiteralString
) -> None:
    await owner.database.execute(ROWS, ("old", 9, 1))
    waits = (
        "SELECT count(*)::int FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE '%%DELETE FROM outbox%%'"
    )
    async with owner.database.transaction() as connection:
        await connection.execute(f"UPDATE outbox SET {change}")
        purge = asyncio.create_task(until_done(owner, Retention()))
        await until(lambda: owner.database.value(waits))
    await purge
    assert await owner.rows("SELECT count(*) FROM outbox") == [(1,)]


async def test_a_pass_ends_although_rows_of_one_time_cannot_be_deleted(owner: EventOwner) -> None:
    await owner.database.execute(
        "INSERT INTO inbox (consumer, message_id, company_id, received_at)"
        " SELECT 'c', n::text, 'c', '2020-01-01' FROM generate_series(1, 20) n"
    )
    await owner.database.execute(
        "CREATE FUNCTION spare() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        " CREATE TRIGGER spare BEFORE DELETE ON inbox FOR EACH ROW EXECUTE FUNCTION spare()"
    )
    retention = Retention(rows=10)
    # Two batches of rows, and what is found after them.
    assert False in [await keep(owner, retention) for _ in range(4)]
    assert await owner.rows("SELECT count(*) FROM inbox") == [(20,)]
    await owner.database.execute("DROP TRIGGER spare ON inbox")
    await until_done(owner, retention)
    assert await owner.rows("SELECT count(*) FROM inbox") == [(0,)]


async def test_a_slice_of_time_leaves_the_rest_to_the_next(owner: EventOwner) -> None:
    await owner.database.execute(ROWS, ("old", 9, 25))
    retention = Retention(rows=10, slice_seconds=0.0)
    for left in (15, 15, 5):
        await keep(owner, retention)
        assert await owner.rows("SELECT count(*) FROM outbox") == [(left,)]
    await until_done(owner, retention)
    assert await owner.rows("SELECT count(*) FROM outbox") == [(0,)]


async def test_the_inbox_is_purged_although_the_outbox_cannot_be(owner: EventOwner) -> None:
    await owner.database.execute(MESSAGES, ("old", 9, 5))
    await owner.database.execute("ALTER TABLE outbox RENAME COLUMN published_at TO sent_at")
    await until_done(owner, Retention())
    assert await owner.rows("SELECT count(*) FROM inbox") == [(0,)]
