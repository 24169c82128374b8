"""One suite for the timeline in PostgreSQL and for the one in memory: numbering, offsets, reading."""

import asyncio
import itertools
import json
import re
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncClientCursor
from pydantic import SecretStr
from structlog.testing import capture_logs

from libs.contracts.identifiers import new_id
from libs.contracts.timeline import EVENT_FIELDS, RecordedEvent, TimelineFilter
from libs.contracts.timestamps import format_time
from libs.eventing.bus import OffsetMove, Partition, StaleOffset
from libs.persistence import Database
from services.gateway.domain.timeline import TimelineEvent
from services.timeline.adapters.postgres import timeline as adapter
from services.timeline.adapters.postgres.log import PostgresTimelineLog
from services.timeline.adapters.postgres.partitions import PostgresTimelinePartitions
from services.timeline.adapters.postgres.timeline import PostgresTimeline
from services.timeline.bootstrap import build_log
from services.timeline.domain.events import OWNER_UNKNOWN
from services.timeline.domain.ports import Timeline
from services.timeline.entrypoints.log import TimelineLog
from services.timeline.settings import TimelineSettings
from tests.integration.gateway.conftest import SIGNING_KEY
from tests.support.timeline import COMPANY, FakeTimeline, event


class ExplainedDatabase:
    """Takes the place of a database for an adapter, and explains each statement that it executes for one value.

    Statements are prepared, so that plans are kept as in a process that has run for long. Their own plans say what they
    read: statistics views count others, too, and count late.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.rows_read: list[int] = []
        """Rows of events that each statement has read."""

    async def value(self, statement: str, parameters: tuple[Any, ...]) -> int:
        """Returns how many rows an INSERT within the statement has stored."""
        async with self._database.connection() as connection:
            cursor = AsyncClientCursor(connection)
            name = f"explained_{zlib.crc32(statement.encode())}"
            known = await connection.execute("SELECT 1 FROM pg_prepared_statements WHERE name = %s", (name,))
            if await known.fetchone() is None:
                numbers = itertools.count(1)
                numbered = re.sub("%s", lambda _: f"${next(numbers)}", statement)
                await connection.execute(f"PREPARE {name} AS {numbered}".encode(), prepare=False)
            execute = cursor.mogrify(f"EXECUTE {name}({', '.join(['%s'] * len(parameters))})", parameters)
            await cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {execute}")
            row = await cursor.fetchone()
        nodes = list(_nodes(row[0][0]["Plan"]))
        self.rows_read.append(sum(map(_events_read, nodes)))
        return sum(node["Actual Rows"] for node in nodes if node.get("Subplan Name") == "CTE stored")


def _nodes(plan: dict[str, Any]) -> Any:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


def _events_read(node: dict[str, Any]) -> int:
    if node["Node Type"] == "ModifyTable" or not node.get("Relation Name", "").startswith("timeline_events_"):
        return 0
    removed = sum(count for name, count in node.items() if name.startswith("Rows Removed by"))
    return int((node["Actual Rows"] + removed) * node["Actual Loops"])


FIRST = Partition("runtime-events", 0)
SECOND = Partition("artifacts-events", 0)
EVERYTHING = TimelineFilter(company_id=COMPANY)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test", timeout=30.0)
    await database.open()
    yield database
    await database.close()


@pytest.fixture(params=["memory", "postgres"])
def stores(request: pytest.FixtureRequest, database: Database) -> tuple[TimelineLog, Timeline]:
    if request.param == "memory":
        fake = FakeTimeline()
        return fake, fake
    log = PostgresTimelineLog(database, PostgresTimelinePartitions(database), now=lambda: datetime.now(UTC))
    return log, PostgresTimeline(database)


@pytest.fixture
def log(stores: tuple[TimelineLog, Timeline]) -> TimelineLog:
    return stores[0]


@pytest.fixture
def timeline(stores: tuple[TimelineLog, Timeline]) -> Timeline:
    return stores[1]


def recorded(event: RecordedEvent) -> RecordedEvent:
    """As it is stored, whoever has it."""
    return RecordedEvent(**{name: getattr(event, name) for name in (*EVENT_FIELDS, "data")})


async def put(log: TimelineLog, *events: TimelineEvent) -> None:
    await log.store(events, {})


async def found(timeline: Timeline, where: TimelineFilter = EVERYTHING, after: int = 0, limit: int = 100) -> list[str]:
    return [each.id for each in (await timeline.page(where, after=after, limit=limit)).events]


async def test_positions_count_the_events_of_each_company(log: TimelineLog, timeline: Timeline) -> None:
    own = [event(sequence=number) for number in range(1, 6)]
    others = [event(company_id="company-2") for _ in range(3)]
    assert await log.store([own[0], others[0], *own[1:3], others[1]], {}) == 5
    assert await log.store([others[2], *own[3:]], {}) == 3

    read = (await timeline.page(EVERYTHING, after=0, limit=100)).events
    assert list(map(recorded, read)) == [recorded(replace(each, position=place)) for place, each in enumerate(own, 1)]
    assert await timeline.head(COMPANY) == 5
    assert await timeline.head("company-2") == 3
    assert await timeline.head("company-3") == 0


async def test_an_event_that_comes_again_is_stored_once(log: TimelineLog, timeline: Timeline) -> None:
    events = [event(sequence=number) for number in range(1, 4)]
    await put(log, *events)
    assert await log.store([events[1], added := event(), events[0], added], {}) == 1
    assert await found(timeline) == [*(each.id for each in events), added.id]
    assert await timeline.head(COMPANY) == 4


@pytest.mark.parametrize(
    ("made", "stored", "again"),
    [
        pytest.param("23:59:50", "23:59:55", "+00:00:10", id="across midnight"),
        pytest.param("+00:20:00", "23:40:00", "+00:30:00", id="by a process whose clock is behind"),
        pytest.param("23:40:00", "+00:20:00", "23:50:00", id="by a process whose clock is ahead"),
        pytest.param("no time", "12:00:00", "+12:00:00", id="without a readable time"),
        pytest.param("12:00:00", "12:00:01", "+23:00:00", id="a day later"),
    ],
)
async def test_an_event_that_comes_again_on_another_day_is_stored_once(
    database: Database, made: str, stored: str, again: str
) -> None:
    """Times are of yesterday, and of today with a plus."""
    today = datetime.now(UTC).date()

    def at(text: str) -> datetime:
        day = today if text.startswith("+") else today - timedelta(days=1)
        return datetime.fromisoformat(f"{day}T{text.removeprefix('+')}+00:00")

    once = event(time=made if made == "no time" else format_time(at(made)))
    partitions = PostgresTimelinePartitions(database)
    assert await PostgresTimelineLog(database, partitions, now=lambda: at(stored)).store([once], {}) == 1
    assert await PostgresTimelineLog(database, partitions, now=lambda: at(again)).store([once], {}) == 0


@pytest.mark.parametrize(("ahead", "warnings"), [(3500, []), (3700, [3700])])
async def test_a_service_whose_clock_is_an_hour_ahead_is_warned_of(
    database: Database, ahead: int, warnings: list[int]
) -> None:
    now = datetime.now(UTC)
    early = event(time=format_time(now + timedelta(seconds=ahead)))
    with capture_logs() as logged:
        await PostgresTimelineLog(database, PostgresTimelinePartitions(database), now=lambda: now).store([early], {})
    assert [each["seconds"] for each in logged if each["event"] == "timeline.clocks_differ"] == warnings


async def test_events_of_two_services_about_one_subject_are_two_events(log: TimelineLog, timeline: Timeline) -> None:
    first = event(source="/aes/artifacts", subject="artifact")
    second = event(source="/aes/ingestion", subject="artifact")
    await put(log, first)
    await put(log, second)
    assert await found(timeline) == [first.id, second.id]


def explained_log(database: Database) -> tuple[PostgresTimelineLog, ExplainedDatabase]:
    explained = ExplainedDatabase(database)
    partitions = PostgresTimelinePartitions(database)
    return PostgresTimelineLog(explained, partitions, now=lambda: datetime.now(UTC)), explained  # type: ignore[arg-type]


async def test_storing_does_not_read_the_companys_other_events_on_a_new_day(database_url: str) -> None:
    """Also when the partition was analyzed while it was empty, as PostgreSQL then takes it for empty for a minute."""
    url, servers = SecretStr(database_url), "127.0.0.1:9"
    settings = TimelineSettings(database_url=url, kafka_bootstrap_servers=servers, signing_key=SIGNING_KEY)
    database = build_log(settings).database
    await database.open()
    try:
        log, explained = explained_log(database)
        await database.execute("ANALYZE timeline_events")
        for _ in range(30):
            assert await log.store([event() for _ in range(10)], {}) == 10
        assert len(explained.rows_read) == 30
        assert max(explained.rows_read) == 0, explained.rows_read
    finally:
        await database.close()


async def test_a_young_partition_is_analyzed_before_a_look_can_take_the_wrong_index(database_url: str) -> None:
    """A plan made at 160 events: the index of positions has one page then and that of subjects two."""
    databases = [Database(database_url, name="test", plan_once=True, timeout=30.0) for _ in range(2)]
    for database, batches in zip(databases, (80, 200), strict=True):
        await database.open()
        log, explained = explained_log(database)
        for _ in range(batches):
            await put(log, *(event(subject=new_id()) for _ in range(2)))
    for _ in range(50):
        await put(log, event(subject=new_id()))
    assert max(explained.rows_read[-50:]) == 0, explained.rows_read
    for database in databases:
        await database.close()


async def test_offsets_are_stored_with_the_events(log: TimelineLog, timeline: Timeline) -> None:
    assert await log.offsets(["runtime-events"]) == {}
    await log.store([event()], {FIRST: OffsetMove(None, 3), SECOND: OffsetMove(None, 1)})
    await log.store([event()], {FIRST: OffsetMove(3, 7)})
    assert await log.offsets(["runtime-events"]) == {FIRST: 7}
    assert await log.offsets(["runtime-events", "artifacts-events"]) == {FIRST: 7, SECOND: 1}
    assert await timeline.head(COMPANY) == 2


@pytest.mark.rule(28)
@pytest.mark.parametrize("before", [None, 2, 4])
async def test_a_process_whose_partition_moved_on_stores_nothing(
    log: TimelineLog, timeline: Timeline, before: int | None
) -> None:
    await log.store([event()], {FIRST: OffsetMove(None, 3), SECOND: OffsetMove(None, 1)})
    with pytest.raises(StaleOffset):
        await log.store([event()], {SECOND: OffsetMove(1, 2), FIRST: OffsetMove(before, 5)})
    assert await log.offsets(["runtime-events", "artifacts-events"]) == {FIRST: 3, SECOND: 1}
    assert await timeline.head(COMPANY) == 1


async def test_of_processes_with_the_same_records_one_stores_them(log: TimelineLog, timeline: Timeline) -> None:
    events = [event(company_id=f"company-{number % 5}") for number in range(50)]

    async def store() -> int:
        try:
            return await log.store(events, {FIRST: OffsetMove(None, 50)})
        except StaleOffset:
            return 0

    assert sorted(await asyncio.gather(*(store() for _ in range(5)))) == [0, 0, 0, 0, 50]
    for number in range(5):
        assert await timeline.head(f"company-{number}") == 10


@pytest.mark.rule(27)
async def test_companies_that_many_processes_number_at_once_have_no_gaps(log: TimelineLog, timeline: Timeline) -> None:
    async def fill(number: int) -> None:
        for _ in range(10):
            companies = ["a", "b", "c"] if number % 2 else ["c", "b", "a"]
            await put(log, *(event(company_id=company) for company in companies))

    await asyncio.gather(*(fill(number) for number in range(6)))
    for company in ("a", "b", "c"):
        read = (await timeline.page(TimelineFilter(company_id=company), after=0, limit=100)).events
        assert [each.position for each in read] == list(range(1, 61))


async def test_payloads_are_kept_as_they_came(log: TimelineLog, timeline: Timeline) -> None:
    payloads = [b'{"text": "a\\u0000b"}', '{ "ü":1.50 ,"deep":[{"x":null}]}'.encode(), b'"text"', b"[1, 2]"]
    await put(log, *(event(data=payload) for payload in payloads))
    assert [each.data for each in (await timeline.page(EVERYTHING, after=0, limit=10)).events] == payloads


async def test_every_filter_finds_its_events(log: TimelineLog, timeline: Timeline) -> None:
    session, turn = new_id(), new_id()
    started = event(type="turn.started", session_id=session, turn_id=turn, correlation_id="mine")
    call = event(type="turn.tool_call.started", session_id=session, turn_id=turn)
    created = event(type="session.created", session_id=session)
    similar = event(type="turnXcompleted")
    await put(log, started, call, created, similar)

    async def ids(**fields: object) -> list[str]:
        return await found(timeline, replace(EVERYTHING, **fields))

    assert await ids(correlation_id="mine") == [started.id]
    assert await ids(session_id=session) == [started.id, call.id, created.id]
    assert await ids(turn_id=turn) == [started.id, call.id]
    assert await ids(types=("turn.started",)) == [started.id]
    assert await ids(types=("turn.*",)) == [started.id, call.id]
    assert await ids(types=("session.created", "turn.tool_call.*")) == [call.id, created.id]
    assert await ids(types=("*",)) == [started.id, call.id, created.id, similar.id]
    assert await ids(types=("turn.st",)) == []
    assert await ids(company_id="company-2") == []
    assert await ids(session_id=session, types=("session.*",), correlation_id="mine") == []


@pytest.mark.rule(30)
async def test_events_of_other_users_are_seen_by_the_company_only(log: TimelineLog, timeline: Timeline) -> None:
    everybodys, adas, bobs, nobodys = (event(owner_id=owner) for owner in (None, "ada", "bob", OWNER_UNKNOWN))
    await put(log, everybodys, adas, bobs, nobodys)
    assert await found(timeline) == [everybodys.id, adas.id, bobs.id, nobodys.id]
    assert await found(timeline, replace(EVERYTHING, visible_to="ada")) == [everybodys.id, adas.id]


async def test_pages_from_the_end_follow_each_other(
    log: TimelineLog, timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "MOST_LOOKED_AT", 3)
    if isinstance(timeline, FakeTimeline):
        timeline.looked_at = 3
    events = [event(type="thing.ended" if number in (1, 6) else "thing.happened") for number in range(8)]
    await put(log, *events)
    pages, before, has_more = [], None, True
    while has_more:
        page = await timeline.page_back(replace(EVERYTHING, types=("thing.ended",)), before=before, limit=1)
        pages.append([each.id for each in page.events])
        before, has_more = page.next, page.has_more
        # What comes in between is no part of what is read backwards.
        await put(log, event(type="thing.ended"))
    assert pages == [[events[6].id], [], [events[1].id]]
    everything = await timeline.page_back(EVERYTHING, before=4, limit=5)
    assert ([each.position for each in everything.events], everything.has_more) == ([3, 2, 1], False)


async def test_a_turns_events_are_read_in_their_sequence(log: TimelineLog, timeline: Timeline) -> None:
    events = [event(subject="turn", sequence=number, turn_id="turn") for number in range(1, 5)]
    artifact = event(subject="artifact", turn_id="turn")
    await put(log, events[0], artifact, *events[1:], event(subject="turn", company_id="company-2"))
    read = await timeline.turn(COMPANY, "turn", after_sequence=1)
    assert [each.id for each in read] == [each.id for each in events[1:]]
    assert await timeline.turn("company-3", "turn", after_sequence=0) == []


def test_the_json_of_an_event_has_its_payload_in_it() -> None:
    made = event(position=3, turn_id="turn", owner_id="ada", data=b'{"a": 1.50}')
    shown = json.loads(made.to_json())
    assert shown["data"] == {"a": 1.5}
    assert (shown["position"], shown["turn_id"], shown["causation_id"]) == (3, "turn", None)
    assert not {"session_id", "owner_id", "company_id"} & shown.keys()
