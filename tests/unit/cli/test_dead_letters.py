from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from cli.bus_address import bus_address
from cli.dlq import command
from cli.dlq.dlq_message import DlqMessage
from cli.dlq.dlq_topic import dlq_topic_named, dlq_topics
from cli.dlq.replay_offsets import MetadataTooLong, ReplayOffsets
from deploy.local.errors import StackError
from libs.contracts.timestamps import format_time
from libs.contracts.topics import TopicKind, with_dead_letters

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def letter(**headers: str) -> DlqMessage:
    pairs = tuple((name.replace("__", "-"), value.encode()) for name, value in headers.items())
    return DlqMessage(3, "key", b"{}", pairs, NOW)


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


@pytest.mark.parametrize(("days", "too_old"), [(6.9, False), (7.1, True)])
def test_age_counts_from_when_the_message_was_made(days: float, too_old: bool) -> None:
    made = format_time(NOW - timedelta(days=days))

    assert letter(ce_time=made).is_too_old(NOW) is too_old
    assert letter(ce_time="yesterday").is_too_old(NOW + timedelta(days=days)) is too_old


def test_every_declared_dead_letter_topic_is_known() -> None:
    declared = {topic.name for topic in with_dead_letters() if topic.kind is TopicKind.DEAD_LETTERS}

    assert {dlq_topic.name for dlq_topic in dlq_topics()} == declared
    assert dlq_topic_named("runtime-events-artifacts-dlq").source == "runtime-events"
    with pytest.raises(StackError, match="no dead-letter topic named runtime-events"):
        dlq_topic_named("runtime-events")


def test_without_a_broker_it_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.delenv("AES_KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setenv("AES_HOME", str(tmp_path))
    result = CliRunner().invoke(command.app, ["list", "--json"])

    assert result.exit_code == 1
    assert "aes up" in result.stderr
    monkeypatch.setenv("AES_KAFKA_BOOTSTRAP_SERVERS", "kafka:9092")
    assert bus_address().servers == "kafka:9092"
