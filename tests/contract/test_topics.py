import re

import pytest

from libs.contracts.topics import TOPICS, Topic, TopicKind, with_dead_letters

SERVICES = {"gateway", "registry", "runtime", "ingestion", "artifacts", "timeline"}


@pytest.mark.parametrize("topic", with_dead_letters(), ids=lambda topic: topic.name)
def test_every_topic_is_declared_in_full(topic: Topic) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", topic.name)
    assert topic.owner in SERVICES
    assert set(topic.consumers) <= SERVICES
    assert topic.description
    assert topic.partitions >= 1
    assert topic.retention_ms >= topic.segment_ms or topic.kind is TopicKind.DELTAS


def test_a_key_is_in_partitions_of_the_same_number_of_all_events_topics() -> None:
    """The one reader that owns them puts their events in order."""
    assert len({topic.partitions for topic in TOPICS if topic.kind is TopicKind.EVENTS}) == 1


def test_names_are_unique() -> None:
    names = [topic.name for topic in with_dead_letters()]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_every_topic_but_dead_letters_has_a_consumer(topic: Topic) -> None:
    assert topic.consumers or topic.tailed_by
    if topic.kind is TopicKind.COMMANDS:
        assert topic.consumers == (topic.owner,)


def test_commands_are_kept_three_days_and_inboxes_can_outlive_them() -> None:
    commands = [topic for topic in TOPICS if topic.kind is TopicKind.COMMANDS]

    assert {topic.retention_ms for topic in commands} == {3 * 24 * 3600 * 1000}
    assert {topic.segment_ms for topic in commands} == {24 * 3600 * 1000}


def test_only_who_can_give_a_message_up_has_dead_letters() -> None:
    names = {topic.name for topic in with_dead_letters() if topic.kind is TopicKind.DEAD_LETTERS}

    assert {"runtime-commands-runtime-dlq", "runtime-events-artifacts-dlq", "runtime-events-timeline-dlq"} <= names
    assert not any(name.startswith("runtime-deltas-") for name in names)
