"""The pace of a batch consumer, by a clock of its own."""

import pytest

from libs.eventing._poll_pace import PollPace

PACE = 0.02


def rests_of(
    records_per_second: float, late: float, *, took: float = 0.001, seconds: float = 10.0, most: int = 500
) -> list[float]:
    """The rests between polls, while records come at that rate, each rest ends that much too late, and a batch took."""
    pace, now, rests = PollPace(PACE), 100.0, []
    while now < 100.0 + seconds:
        rest = max(pace.next_at - now, 0.0)
        rests.append(rest)
        now += rest + late
        pace.rested(late)
        records = min(round(records_per_second * (rest + late + took)), most) or 1
        pace.polled(records, now, most=most)
        now += took
    return rests


@pytest.mark.parametrize(
    ("records_per_second", "late", "expected"),
    [
        (50, 0.0, PACE),
        (50, 0.01, PACE),
        (200, 0.0, PACE),
        (200, 0.01, 12 * PACE),
        (1000, 0.0, 12 * PACE),
    ],
)
def test_batches_are_fewer_where_many_records_come_or_others_wait(
    records_per_second: float, late: float, expected: float
) -> None:
    assert rests_of(records_per_second, late)[-1] == pytest.approx(expected, abs=0.002)


def test_a_late_event_loop_is_seen_where_storing_takes_longer_than_the_pace_and_slow_storing_is_none() -> None:
    assert max(rests_of(200, 0.01, took=0.05)) > 5 * PACE
    assert max(rests_of(200, 0.0, took=0.05)) <= PACE


def test_a_single_stall_changes_nothing() -> None:
    pace, now = PollPace(PACE), 100.0
    for number in range(200):
        late = 1.0 if number == 150 else 0.0
        now = pace.next_at + late
        pace.rested(late)
        pace.polled(4, now, most=500)
        assert pace.next_at == pytest.approx(now + PACE)


def test_after_a_full_poll_there_is_no_rest() -> None:
    pace = PollPace(PACE)
    pace.polled(500, 100.0, most=500)
    assert pace.next_at <= 100.0
