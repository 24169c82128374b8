"""Usage in PostgreSQL: added up with the events that it comes from, once, and read by groups."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.resources.usage import UsageGroup
from libs.eventing.bus import OffsetMove, Partition, StaleOffset
from libs.persistence import Database
from services.gateway.domain.timeline import TimelineEvent
from services.timeline.adapters.postgres.log import PostgresTimelineLog
from services.timeline.adapters.postgres.partitions import PostgresTimelinePartitions
from services.timeline.adapters.postgres.usage import PostgresUsage
from services.timeline.domain.usage import TurnUsage, UsagePage, UsageSpan
from tests.support.timeline import COMPANY, event

EVERYTHING = UsageSpan(
    company_id=COMPANY,
    user_id=None,
    begin=datetime(2029, 12, 1, tzinfo=UTC),
    end=datetime(2030, 2, 1, tzinfo=UTC),
)


@pytest.fixture
def log(database: Database) -> PostgresTimelineLog:
    return PostgresTimelineLog(database, PostgresTimelinePartitions(database), now=lambda: datetime.now(UTC))


@pytest.fixture
def usage(database: Database) -> PostgresUsage:
    return PostgresUsage(database)


def ended(**fields: Any) -> TimelineEvent:
    used = {
        "hour": "2030-01-01T08:00:00+00:00",
        "user_id": "ada",
        "key_id": "key",
        "agent_id": "agent",
        "model": "builtin:extractive",
        "input_tokens": 10,
        "output_tokens": 2,
        "tool_calls": 1,
        "seconds": 0.25,
        "cost": "0.000012",
    }
    return event(sequence=2, type="turn.completed", usage=TurnUsage(**{**used, **fields}))


async def read(usage: PostgresUsage, *groups: UsageGroup, **changes: Any) -> UsagePage:
    return await usage.usage(replace(EVERYTHING, **changes), groups, limit=100, offset=0)


async def test_turns_add_up_exactly_and_other_events_count_for_nothing(
    log: PostgresTimelineLog, usage: PostgresUsage
) -> None:
    turns = [ended(cost="0.1") for _ in range(3)] + [ended(cost=None)]
    await log.store([*turns, event(id=new_id(), subject=new_id())], {})
    totals = (await read(usage)).totals
    assert totals.model_dump(exclude_unset=True) == {
        "turns": 4,
        "input_tokens": 40,
        "output_tokens": 8,
        "tool_calls": 4,
        "seconds": 1.0,
        "cost": "0.3",
        "unpriced_turns": 1,
    }


async def test_an_event_that_comes_again_is_counted_once(log: PostgresTimelineLog, usage: PostgresUsage) -> None:
    turn = ended()
    await log.store([turn, turn], {})
    await log.store([turn, ended()], {})
    assert (await read(usage)).totals.turns == 2


async def test_a_writer_that_was_overtaken_adds_nothing(log: PostgresTimelineLog, usage: PostgresUsage) -> None:
    partition = Partition("runtime-events", 0)
    await log.store([ended()], {partition: OffsetMove(None, 5)})
    with pytest.raises(StaleOffset):
        await log.store([ended()], {partition: OffsetMove(None, 7)})
    assert (await read(usage)).totals.turns == 1


async def test_writers_of_the_same_company_at_once_lose_nothing(log: PostgresTimelineLog, usage: PostgresUsage) -> None:
    await asyncio.gather(*(log.store([ended() for _ in range(5)], {}) for _ in range(20)))
    assert (await read(usage)).totals.turns == 100


async def test_groups_are_summed_in_their_order_with_a_total(log: PostgresTimelineLog, usage: PostgresUsage) -> None:
    late = "2030-01-02T23:00:00+00:00"
    await log.store([ended(), ended(model="openai:x"), ended(hour=late), ended(user_id="bob")], {})
    page = await read(usage, UsageGroup.DAY, UsageGroup.MODEL)
    assert [(each.day, each.model, each.turns) for each in page.items] == [
        ("2030-01-01", "builtin:extractive", 2),
        ("2030-01-01", "openai:x", 1),
        ("2030-01-02", "builtin:extractive", 1),
    ]
    assert (page.number, page.totals.turns) == (3, 4)
    second = await usage.usage(EVERYTHING, (UsageGroup.DAY,), limit=1, offset=1)
    assert (second.number, [each.turns for each in second.items]) == (2, [1])
    beyond = await usage.usage(EVERYTHING, (UsageGroup.DAY,), limit=1, offset=9)
    assert (beyond.number, list(beyond.items)) == (2, [])


async def test_only_the_company_the_user_and_the_hours_that_were_asked_for(
    log: PostgresTimelineLog, usage: PostgresUsage
) -> None:
    await log.store([ended(), ended(user_id="bob"), replace(ended(), company_id="another")], {})
    assert (await read(usage, user_id="bob")).totals.turns == 1
    assert (await read(usage, company_id="another")).totals.turns == 1
    after = datetime(2030, 1, 1, 9, tzinfo=UTC)
    assert (await read(usage, begin=after)).totals.turns == 0
    assert (await read(usage, end=after)).totals.turns == 2


async def test_old_hours_are_deleted_in_batches(log: PostgresTimelineLog, usage: PostgresUsage) -> None:
    await log.store([ended(hour=f"2030-01-0{day}T00:00:00+00:00") for day in range(1, 6)], {})
    before = datetime(2030, 1, 4, tzinfo=UTC)
    assert [await usage.purge(before, limit=2) for _ in range(3)] == [2, 1, 0]
    assert (await read(usage)).totals.turns == 2
