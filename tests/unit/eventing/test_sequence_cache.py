from datetime import UTC, datetime

from libs.eventing import OutboxMessage
from libs.eventing._outbox import SequenceCache


def event(subject: str, sequence: int) -> OutboxMessage:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return OutboxMessage(1, now, "event", "type", "topic", subject, sequence, "company", "label", None, None, None, b"")


def test_a_subject_is_its_own_from_the_beginning_for_as_long_as_nobody_else_counts_on() -> None:
    own = SequenceCache()
    assert own.continues("s", 1)
    assert not own.continues("s", 2)
    own.remember([event("s", 1), event("t", 7), event("s", 2)])
    assert own.continues("s", 3)
    assert not own.continues("s", 4), "another process recorded the third"
    assert own.continues("t", 8)
    assert not own.continues("u", 2)


def test_the_subjects_used_last_are_remembered() -> None:
    own = SequenceCache()
    own.remember([event("kept", 1), event("forgotten", 1)])
    own.remember([event("kept", 2)])
    own.remember(event(str(number), 1) for number in range(9_999))
    assert own.continues("kept", 3)
    assert not own.continues("forgotten", 2)
