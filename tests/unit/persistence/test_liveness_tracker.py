"""Processes that count as gone, by looks at made-up times."""

import pytest

from libs.persistence._liveness import LivenessTracker

GRACE = 1.0


@pytest.fixture
def attendance() -> LivenessTracker:
    begun = LivenessTracker(grace=GRACE)
    begun.begin(0.0)
    return begun


def test_a_process_is_gone_when_its_lock_is_missing_for_a_second(attendance: LivenessTracker) -> None:
    attendance.looked(frozenset({1, 2}), 10.0)
    assert not attendance.looked(frozenset({1}), 10.5)
    assert not attendance.looked(frozenset({1}), 10.5 + GRACE - 0.1)
    assert attendance.of([1, 2], 11.5) == set()
    assert attendance.looked(frozenset({1}), 10.5 + GRACE)
    assert attendance.of([1, 2], 11.6) == {2}
    assert not attendance.looked(frozenset({1}), 12.0), "it is told once"


def test_a_lock_that_is_taken_anew_in_time_was_never_missing(attendance: LivenessTracker) -> None:
    attendance.looked(frozenset({1, 2}), 10.0)
    attendance.looked(frozenset({1}), 10.5)
    attendance.looked(frozenset({1, 2}), 11.0)
    attendance.looked(frozenset({1}), 11.5)
    attendance.looked(frozenset({1}), 12.0)
    assert attendance.of([2], 12.0) == set()


def test_whoever_comes_back_is_there(attendance: LivenessTracker) -> None:
    attendance.looked(frozenset({2}), 10.0)
    attendance.looked(frozenset(), 10.5)
    attendance.looked(frozenset(), 12.0)
    assert attendance.of([2], 12.0) == {2}
    attendance.looked(frozenset({2}), 12.5)
    assert attendance.of([2], 12.5) == set()


def test_a_number_never_seen_is_watched_from_the_question_on(attendance: LivenessTracker) -> None:
    """Its process may have taken its lock right after the last look."""
    attendance.looked(frozenset({1}), 10.0)
    assert attendance.of([7], 10.4) == set()
    attendance.looked(frozenset({1}), 10.5)
    assert attendance.of([7], 10.9) == set()
    attendance.looked(frozenset({1}), 11.5)
    assert attendance.of([7], 11.5) == {7}


def test_nobody_is_gone_before_the_judge_may_be_trusted() -> None:
    attendance = LivenessTracker(grace=GRACE)
    attendance.begin(20.0)
    attendance.looked(frozenset({1, 2}), 10.0)
    attendance.looked(frozenset({1}), 11.0)
    assert not attendance.looked(frozenset({1}), 19.9)
    assert attendance.of([2], 19.9) == set()
    assert attendance.looked(frozenset({1}), 20.0)
    assert attendance.of([2], 20.0) == {2}


def test_after_the_end_nobody_is_gone(attendance: LivenessTracker) -> None:
    attendance.looked(frozenset({2}), 10.0)
    attendance.looked(frozenset(), 10.5)
    attendance.looked(frozenset(), 12.0)
    attendance.end()
    assert attendance.of([2], 12.0) == set()
    attendance.looked(frozenset(), 50.0)
    assert attendance.of([2], 50.0) == set()


def test_what_was_absent_for_long_is_forgotten(attendance: LivenessTracker) -> None:
    attendance.looked(frozenset({2}), 10.0)
    attendance.looked(frozenset(), 11.0)
    attendance.looked(frozenset(), 1000.0)
    assert attendance.gone == set()
