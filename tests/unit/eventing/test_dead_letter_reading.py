from datetime import UTC, datetime, timedelta

import pytest

from libs.contracts.errors import NotFound
from libs.contracts.timestamps import format_time
from libs.contracts.topics import TopicKind, with_dead_letters
from libs.eventing.dead_letters import (
    DeadLetter,
    MetadataTooLong,
    ReplayOffsets,
    dead_letter_topic_named,
    dead_letter_topics,
)

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def letter(**headers: str) -> DeadLetter:
    pairs = tuple((name.replace("__", "-"), value.encode()) for name, value in headers.items())
    return DeadLetter(3, "key", b"{}", pairs, NOW)


def test_what_was_replayed_grows_to_a_prefix() -> None:
    replayed = ReplayOffsets()
    for offset in (6, 8, 9, 5):
        replayed = replayed.with_offset(offset, first=5)

    assert (replayed.position, replayed.metadata()) == (7, "8-9")
    assert [offset for offset in range(5, 12) if offset not in replayed] == [7, 10, 11]
    assert replayed.count(5, 12) == 4
    assert ReplayOffsets.read(replayed.position, replayed.metadata()) == replayed
    assert replayed.with_offset(7, first=5) == ReplayOffsets(10)
    assert replayed.with_offset(11, first=11) == ReplayOffsets(12), "earlier ones are not kept any more"
    assert replayed.count(9, 12) == 1
    assert ReplayOffsets.read(-1, "") == ReplayOffsets()


def test_more_gaps_than_the_broker_keeps_are_refused() -> None:
    with pytest.raises(MetadataTooLong):
        ReplayOffsets(0, frozenset(range(1, 4000, 2))).metadata()


def test_a_letter_shows_why_and_hides_who() -> None:
    found = letter(
        ce_id="e1",
        ce_type="aes.runtime.turn.completed.v1",
        ce_identity="signed.secret",
        authorization="Bearer secret",
        content__type="application/json",
        dlq_topic="runtime-events",
        dlq_partition="4",
        dlq_offset="17",
        dlq_reason="not an event",
        dlq_attempts="3",
    ).as_json(replayed=False)

    assert (found["reason"], found["attempts"], found["type"]) == ("not an event", 3, "aes.runtime.turn.completed.v1")
    assert (found["topic"], found["partition"], found["original_offset"]) == ("runtime-events", 4, 17)
    assert found["headers"]["content-type"] == "application/json"
    assert found["headers"]["ce_identity"] == "(13 bytes, not shown)"
    assert "secret" not in str(found)
    assert not [name for name in found["headers"] if name.startswith("dlq_")]


def test_a_letter_without_any_headers_can_be_shown() -> None:
    found = letter().as_json(replayed=True)

    assert (found["reason"], found["attempts"], found["headers"]) == (None, None, {})


def test_a_letter_belongs_to_the_one_company_that_it_names() -> None:
    assert letter(ce_companyid="acme").company_id == "acme"
    assert letter().company_id is None
    assert letter(ce_companyid="").company_id is None
    twice = DeadLetter(3, "key", b"{}", (("ce_companyid", b"acme"), ("ce_companyid", b"other")), NOW)
    assert twice.company_id is None


def test_a_letter_in_a_list_tells_the_size_of_its_payload() -> None:
    assert letter().without_payload().as_json(replayed=False)["payload_bytes"] == 2
    assert letter(dlq_omitted_bytes="900").without_payload().payload_bytes == 900
    assert letter(dlq_omitted_bytes="many", dlq_attempts="²").as_json(replayed=False)["payload_bytes"] == 2


@pytest.mark.parametrize(("days", "too_old"), [(6.9, False), (7.1, True)])
def test_age_counts_from_when_the_message_was_made(days: float, too_old: bool) -> None:
    made = format_time(NOW - timedelta(days=days))

    assert letter(ce_time=made).is_too_old(NOW) is too_old
    assert letter(ce_time="yesterday").is_too_old(NOW + timedelta(days=days)) is too_old


def test_every_declared_dead_letter_topic_is_known() -> None:
    declared = {topic.name for topic in with_dead_letters() if topic.kind is TopicKind.DEAD_LETTERS}

    assert {topic.name for topic in dead_letter_topics()} == declared
    assert dead_letter_topic_named("runtime-events-artifacts-dlq").source == "runtime-events"
    with pytest.raises(NotFound, match="no dead-letter topic named runtime-events"):
        dead_letter_topic_named("runtime-events")
