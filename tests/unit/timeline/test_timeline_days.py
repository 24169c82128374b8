"""Days from which on the timeline's events can lie."""

from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

from libs.contracts.identifiers import new_id
from services.timeline.adapters.postgres.days import TimelineDays, first_day_of

MONDAY = date(2026, 11, 2)
SUNDAY_NIGHT = datetime(2026, 11, 8, 22, 30, tzinfo=UTC)


def known(now: datetime = SUNDAY_NIGHT) -> TimelineDays:
    return TimelineDays(lambda: now)


def on(weekday: int, position: int) -> tuple[date, int]:
    return MONDAY + timedelta(days=weekday), position


def test_what_names_an_id_is_not_older_than_the_id() -> None:
    today = datetime.now(UTC).date()
    assert first_day_of(new_id()) in (today, today - timedelta(days=1))
    assert first_day_of(str(uuid4())) is None
    assert first_day_of("grown-session") is None
    assert first_day_of(None) is None


def test_a_position_is_as_late_as_what_is_known_before_it_but_for_clocks_that_differ() -> None:
    days = known()
    assert days.start("acme", 7) is None
    days.seen("acme", [on(1, 40), on(1, 30), on(2, 41)])

    assert days.start("acme", 29) is None
    assert days.start("acme", 30) == (30, MONDAY)
    assert days.start("acme", 40) == (30, MONDAY)
    assert days.start("acme", 41) == (41, MONDAY + timedelta(days=1))
    assert days.start("another", 41) is None


def test_the_newest_days_are_remembered_whatever_is_read_after_them() -> None:
    days = known()
    for weekday in (0, 3, 2, 4, 1):
        days.seen("acme", [on(weekday, weekday * 10)])

    assert days.start("acme", 19) is None
    assert days.start("acme", 20) == (20, MONDAY + timedelta(days=1))
    assert days.start("acme", 99) == (40, MONDAY + timedelta(days=3))


def test_a_day_that_has_not_begun_tells_nothing() -> None:
    days = known()
    days.seen("acme", [on(6, 5), on(8, 6)])

    assert days.start("acme", 9) == (5, MONDAY + timedelta(days=5))


def test_a_day_that_begins_within_the_difference_of_clocks_has_begun() -> None:
    for minutes, first in ((0, (5, 5)), (31, (6, 6))):
        days = known(SUNDAY_NIGHT + timedelta(minutes=minutes))
        days.seen("acme", [on(6, 5), on(7, 6)])
        assert days.start("acme", 9) == (first[0], MONDAY + timedelta(days=first[1]))


def test_companies_read_long_ago_are_forgotten() -> None:
    days = known()
    for number in range(10_001):
        days.seen(f"company-{number}", [on(0, 1)])
        days.seen("company-0", [on(0, 1)])
        days.seen("company-1", [])

    assert days.start("company-1", 1) is None
    assert days.start("company-0", 1) == (1, MONDAY - timedelta(days=1))
    assert days.start("company-10000", 1) == (1, MONDAY - timedelta(days=1))
