from datetime import UTC, datetime

from libs.eventing import OutboxMessage
from libs.eventing._outbox import SequenceCache


def event(subject: str, sequence: int) -> OutboxMessage:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return OutboxMessage(1, now, "event", "type", "topic", subject, sequence, "company", "label", None, None, None, b"")


def test_a_number_continues_its_subject_until_another_process_records_one() -> None:
    cache = SequenceCache()
    assert cache.continues("s", 1)
    assert not cache.continues("s", 2)
    cache.remember([event("s", 1), event("t", 7), event("s", 2)])
    assert cache.continues("s", 3)
    assert not cache.continues("s", 4), "another process recorded the third"
    assert cache.continues("t", 8)
    assert not cache.continues("u", 2)


def test_the_subjects_used_last_are_remembered() -> None:
    cache = SequenceCache()
    cache.remember([event("kept", 1), event("forgotten", 1)])
    cache.remember([event("kept", 2)])
    cache.remember(event(str(number), 1) for number in range(9_999))
    assert cache.continues("kept", 3)
    assert not cache.continues("forgotten", 2)
