"""Partitions of the timeline: made ahead and when they are missing, dropped whole after the retention."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.messages import PoisonMessage
from libs.contracts.timeline import TimelineFilter
from libs.eventing.bus import OffsetMove, Partition
from libs.persistence import Database
from services.timeline.adapters.postgres.log import PostgresTimelineLog
from services.timeline.adapters.postgres.partitions import PostgresTimelinePartitions
from services.timeline.adapters.postgres.timeline import PostgresTimeline
from tests.support.timeline import COMPANY, event
from tests.support.waiting import WITHIN

TODAY = datetime.now(UTC).date()
EVERYTHING = TimelineFilter(company_id=COMPANY)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test", timeout=30.0)
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


async def test_reads_of_the_present_look_into_no_day_of_the_past(
    database: Database, partitions: PostgresTimelinePartitions
) -> None:
    old, session_id, turn_id = TODAY - timedelta(days=9), new_id(), new_id()
    await partitions.make(old)
    await log_on(database, old).store([event() for _ in range(3)], {})
    present = [event(session_id=session_id, turn_id=turn_id, subject=turn_id, sequence=n) for n in range(8)]
    await log_on(database, TODAY).store(present, {})
    timeline = PostgresTimeline(database)
    newest = await timeline.page_back(EVERYTHING, before=None, limit=5)
    assert [each.position for each in newest.events] == [11, 10, 9, 8, 7]

    of_session, of_turn = replace(EVERYTHING, session_id=session_id), replace(EVERYTHING, turn_id=turn_id)
    async with database.transaction() as holder, asyncio.timeout(WITHIN):
        await holder.execute(f"LOCK TABLE timeline_events_{old:%Y%m%d}".encode())
        assert await timeline.page_back(EVERYTHING, before=None, limit=5) == newest
        assert await timeline.page_back(replace(EVERYTHING, visible_to="ada"), before=None, limit=5) == newest
        assert [each.position for each in (await timeline.page(EVERYTHING, after=6, limit=9)).events] == list(
            range(7, 12)
        )
        for where in (of_session, of_turn):
            assert len((await timeline.page(where, after=0, limit=9)).events) == 8
            assert len((await timeline.page_back(where, before=None, limit=9)).events) == 8
            found = await timeline.newest(where)
            assert found.position == 11
        assert len(await timeline.turn(COMPANY, turn_id, after_sequence=0)) == 7
    everything = await timeline.page_back(EVERYTHING, before=None, limit=20)
    assert [each.position for each in everything.events] == list(range(11, 0, -1))
    assert len((await timeline.page(EVERYTHING, after=0, limit=20)).events) == 11


async def test_a_page_back_is_whole_where_clocks_differ_around_midnight(
    database: Database, partitions: PostgresTimelinePartitions
) -> None:
    yesterday = TODAY - timedelta(days=1)
    await partitions.make(yesterday)
    for day in (yesterday, TODAY, yesterday, TODAY, yesterday, TODAY):
        await log_on(database, day).store([event(), event()], {})
    timeline = PostgresTimeline(database)
    for _ in range(2):
        for limit in (1, 3, 5, 20):
            found, before = [], None
            while True:
                page = await timeline.page_back(EVERYTHING, before=before, limit=limit)
                found += [each.position for each in page.events]
                before = page.next
                if not page.has_more:
                    break
            assert found == list(range(12, 0, -1))
