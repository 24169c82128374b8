"""Derives Kafka's access rules from the producers and consumers in libs/contracts/topics.py."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from libs.contracts.topics import EVENT_TOPICS, TOPICS, Topic, TopicKind, with_dead_letters

SERVICES: Final = tuple(dict.fromkeys(topic.owner for topic in TOPICS))
ResourceType = Literal["topic", "group", "cluster", "transactionalId"]


@dataclass(frozen=True)
class Rule:
    """Allows Kafka operations on a resource, or on all resources with a prefix."""

    type: ResourceType
    name: str
    operations: tuple[str, ...]
    prefix: bool = False


def rules_by_user() -> dict[str, list[Rule]]:
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
    if any(service in topic.consumers for topic in TOPICS):
        rules.append(Rule("group", f"{service}-", ("Read",), prefix=True))
    return rules


def outside_rules(group: str) -> list[Rule]:
    """Returns the rules for third-party programs. Their consumer groups have the prefix ``group``."""
    return [
        *(Rule("topic", topic.name, ("Read", "Describe")) for topic in EVENT_TOPICS),
        Rule("group", group, ("Read",), prefix=True),
    ]


def operator_rules() -> list[Rule]:
    """Returns the rules for `aes topics`, `aes doctor` and `aes dlq`, and for operator requests through the gateway."""
    topics = with_dead_letters()
    return [
        Rule("cluster", "kafka-cluster", ("Describe",)),
        *(Rule("topic", topic.name, _operated(topic)) for topic in topics),
        # The doctor reads the broker's clock from a message.
        Rule("topic", "doctor-", ("Create", "Delete", "Describe", "Write"), prefix=True),
        Rule("group", "dead-letter-replay", ("Read",)),
        # For the lag of the services' groups.
        *(Rule("group", f"{service}-", ("Describe",), prefix=True) for service in SERVICES),
        Rule("transactionalId", "dead-letter-replay-", ("Write", "Describe"), prefix=True),
    ]


def _operations(topic: Topic, sent: Iterable[Topic], read: Iterable[Topic]) -> tuple[str, ...]:
    return (*(["Write"] if topic in sent else []), *(["Read"] if topic in read else []), "Describe")


def _operated(topic: Topic) -> tuple[str, ...]:
    common = ("Create", "Describe", "DescribeConfigs")
    if topic.kind is TopicKind.DEAD_LETTERS:
        return ("Read", *common)
    # Messages are replayed to their original topic. Large payloads are read from there.
    return ("Read", "Write", *common) if topic.consumers else common
