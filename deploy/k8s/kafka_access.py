"""Derives Kafka's access rules from the senders and readers of libs/contracts/topics.py."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from libs.contracts.topics import EVENT_TOPICS, TOPICS, Topic, TopicKind, with_dead_letters

SERVICES: Final = tuple(dict.fromkeys(topic.owner for topic in TOPICS))
ResourceType = Literal["topic", "group", "cluster", "transactionalId"]


@dataclass(frozen=True)
class Rule:
    """Operations, as Kafka names them, on one resource or on all whose names begin like that."""

    type: ResourceType
    name: str
    operations: tuple[str, ...]
    prefix: bool = False


def rules_by_user() -> dict[str, list[Rule]]:
    """Every user of the bus with its rules."""
    return {
        **{f"{service}-kafka": service_rules(service) for service in SERVICES},
        "operator-kafka": operator_rules(),
        "outside-consumer": outside_rules("outside-consumer-"),
    }


def service_rules(service: str) -> list[Rule]:
    topics = with_dead_letters()
    sent = [topic for topic in topics if service in topic.senders]
    read = [topic for topic in topics if service in (*topic.consumers, *topic.tailed_by)]
    rules = [Rule("topic", topic.name, _operations(topic, sent, read)) for topic in topics if topic in (*sent, *read)]
    if _in_groups(service):
        rules.append(Rule("group", f"{service}-", ("Read",), prefix=True))
    return rules


def outside_rules(group: str) -> list[Rule]:
    """A program of somebody else: reads events, in groups that begin like that."""
    return [
        *(Rule("topic", topic.name, ("Read", "Describe")) for topic in EVENT_TOPICS),
        Rule("group", group, ("Read",), prefix=True),
    ]


def operator_rules() -> list[Rule]:
    """Rules for `aes topics`, `aes doctor` and `aes dlq`, and for what operators do through the gateway."""
    topics = with_dead_letters()
    return [
        Rule("cluster", "kafka-cluster", ("Describe",)),
        *(Rule("topic", topic.name, _operated(topic)) for topic in topics),
        # The doctor reads the broker's clock from a message.
        Rule("topic", "doctor-", ("Create", "Delete", "Describe", "Write"), prefix=True),
        Rule("group", "dead-letter-replay", ("Read",)),
        # How far the services' groups are behind.
        *(Rule("group", f"{service}-", ("Describe",), prefix=True) for service in SERVICES),
        Rule("transactionalId", "dead-letter-replay-", ("Write", "Describe"), prefix=True),
    ]


def _operations(topic: Topic, sent: Iterable[Topic], read: Iterable[Topic]) -> tuple[str, ...]:
    return (*(["Write"] if topic in sent else []), *(["Read"] if topic in read else []), "Describe")


def _operated(topic: Topic) -> tuple[str, ...]:
    common = ("Create", "Describe", "DescribeConfigs")
    if topic.kind is TopicKind.DEAD_LETTERS:
        return ("Read", *common)
    # Letters go back to where they came from; those too large for a letter are read there.
    return ("Read", "Write", *common) if topic.consumers else common


def _in_groups(service: str) -> bool:
    return any(service in topic.consumers for topic in TOPICS)
