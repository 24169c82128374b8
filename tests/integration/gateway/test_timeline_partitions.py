"""Partitions of the timeline: made ahead and when they are missing, dropped whole after the retention."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta

import pytest

from libs.eventing import OffsetMove, Partition, PoisonMessage
from libs.persistence import Database
from services.gateway.adapters.postgres.timeline import PostgresTimeline
from services.gateway.adapters.postgres.timeline_log import PostgresTimelineLog
from services.gateway.adapters.postgres.timeline_partitions import PostgresTimelinePartitions
from services.gateway.domain.timeline import TimelineFilter
from tests.support.timeline import COMPANY, event

TODAY = datetime.now(UTC).date()
EVERYTHING = TimelineFilter(company_id=COMPANY)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test")
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def partitions(database: Database) -> PostgresTimelinePartitions:
    return PostgresTimelinePartitions(database)


def log_on(database: Database, day: date) -> PostgresTimelineLog:
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    return PostgresTimelineLog(database, PostgresTimelinePartitions(database), now=lambda: noon)


async def days(database: Database) -> list[date]:
    rows = await database.execute(
        "SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid"
        " WHERE inhparent = 'timeline_events'::regclass AND relkind = 'r' ORDER BY 1"
    )
    return [datetime.strptime(name.removeprefix("timeline_events_"), "%Y%m%d").date() for (name,) in rows]


def span(first: date, count: int) -> list[date]:
    return [first + timedelta(days=number) for number in range(count)]


async def test_the_migration_makes_the_first_days(database: Database) -> None:
    assert await days(database) == span(TODAY - timedelta(days=1), 5)


async def test_the_next_days_are_made_once_by_however_many_processes(
    database: Database, partitions: PostgresTimelinePartitions
) -> None:
    later = TODAY + timedelta(days=2)
    await asyncio.gather(*(partitions.make(later) for _ in range(4)))
    assert await days(database) == span(TODAY - timedelta(days=1), 7)


async def test_an_insert_makes_its_day_when_nobody_has(database: Database) -> None:
    """The maintenance has not run for weeks; what came in before is still found by its id."""
    stored = event(time=f"{TODAY}T10:00:00.000000Z")
    await log_on(database, TODAY).store([stored], {})
    later = TODAY + timedelta(days=20)
    log, place = log_on(database, later), Partition("runtime-events", 0)
    await asyncio.gather(*(log.store([event()], {}) for _ in range(3)))
    assert await log.store([stored, event()], {place: OffsetMove(None, 2)}) == 1
    assert await PostgresTimeline(database).head(COMPANY) == 5
    assert set(span(later - timedelta(days=1), 5)) <= set(await days(database))


async def test_old_days_are_dropped_and_positions_go_on(
    database: Database, partitions: PostgresTimelinePartitions
) -> None:
    await log_on(database, TODAY).store([event(), event()], {})
    later = TODAY + timedelta(days=40)
    await log_on(database, later).store([event()], {})
    await partitions.drop_before(later - timedelta(days=30))
    assert await days(database) == span(later - timedelta(days=1), 5)
    page = await PostgresTimeline(database).page(EVERYTHING, after=0, limit=10)
    assert [each.position for each in page.events] == [3]
    tables = await database.execute(
        "SELECT count(*) FROM pg_class WHERE relname ~ '^timeline_events_2' AND relkind = 'r'"
    )
    assert tables == [(5,)]


async def test_a_drop_that_was_cut_off_is_finished(database: Database, partitions: PostgresTimelinePartitions) -> None:
    """By a crash between detaching a day and dropping it, or while somebody still read it."""
    yesterday, name = TODAY - timedelta(days=1), f"timeline_events_{TODAY - timedelta(days=1):%Y%m%d}"
    await database.execute(f"ALTER TABLE timeline_events DETACH PARTITION {name}")
    await partitions.drop_before(TODAY)
    assert await database.execute(f"SELECT to_regclass('{name}')") == [(None,)]
    await partitions.make(TODAY)
    assert yesterday in await days(database)
    async with database.transaction() as reader:
        await reader.execute("SELECT count(*) FROM timeline_events")
        dropping = asyncio.create_task(partitions.drop_before(TODAY))
        done, _ = await asyncio.wait({dropping}, timeout=1.0)
        # It waits for the reader, and new readers and writers do not wait for it.
        assert not done
        await log_on(database, TODAY).store([event()], {})
        dropping.cancel()
        await asyncio.gather(dropping, return_exceptions=True)
    await partitions.drop_before(TODAY)
    assert yesterday not in await days(database)


@pytest.mark.parametrize("broken", [{"subject": "x" * 10_000_000}, {"version": 70_000}])
async def test_an_event_that_no_database_takes_is_poison(database: Database, broken: dict[str, object]) -> None:
    with pytest.raises(PoisonMessage):
        await log_on(database, TODAY).store([event(), event(**broken)], {})
    assert await PostgresTimeline(database).head(COMPANY) == 0
