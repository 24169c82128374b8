"""The topics of the bus. The stacks and the documentation are generated from these declarations."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_DAY_MS: Final = 24 * 60 * 60 * 1000
MAX_MESSAGE_BYTES: Final = 2 * 1024 * 1024
# All events topics have the same number of partitions, so a key has the same partition number in each of them. A
# consumer that is assigned this partition number of all topics receives all events of the key.
_EVENTS_PARTITIONS: Final = 6


class TopicKind(StrEnum):
    COMMANDS = "commands"
    EVENTS = "events"
    WORK = "work"
    DELTAS = "deltas"
    DEAD_LETTERS = "dead-letters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic of the bus. ``retention_ms`` and ``segment_ms`` are in milliseconds.

    ``consumers`` are the services that read the topic in a consumer group; each has a dead-letter topic.
    ``tailed_by`` are the services that read the topic without a group and skip unreadable messages. Never change the
    number of ``partitions``: keys would move to other partitions and lose their order.
    """

    name: str
    kind: TopicKind
    owner: str
    senders: tuple[str, ...]
    consumers: tuple[str, ...]
    description: str
    partitions: int
    retention_ms: int
    segment_ms: int = _DAY_MS
    tailed_by: tuple[str, ...] = ()


def commands_topic(owner: str, partitions: int, senders: tuple[str, ...] = ("gateway",)) -> Topic:
    return Topic(
        name=f"{owner}-commands",
        kind=TopicKind.COMMANDS,
        owner=owner,
        senders=senders,
        consumers=(owner,),
        description=f"Commands for the {owner} service.",
        partitions=partitions,
        retention_ms=3 * _DAY_MS,
    )


def events_topic(
    owner: str, partitions: int, consumers: tuple[str, ...], tailed_by: tuple[str, ...] = ("gateway",)
) -> Topic:
    return Topic(
        name=f"{owner}-events",
        kind=TopicKind.EVENTS,
        owner=owner,
        senders=(owner,),
        consumers=consumers,
        description=f"The {owner} service's events. They're part of the public API.",
        partitions=partitions,
        retention_ms=7 * _DAY_MS,
        tailed_by=tailed_by,
    )


RUNTIME_COMMANDS: Final = commands_topic("runtime", 12)
RUNTIME_EVENTS: Final = events_topic("runtime", _EVENTS_PARTITIONS, ("timeline", "artifacts"))
REGISTRY_COMMANDS: Final = commands_topic("registry", 6)
REGISTRY_EVENTS: Final = events_topic("registry", _EVENTS_PARTITIONS, ("timeline",))
INGESTION_COMMANDS: Final = commands_topic("ingestion", 6, ("gateway", "artifacts"))
INGESTION_EVENTS: Final = events_topic("ingestion", _EVENTS_PARTITIONS, ("timeline", "artifacts", "ingestion"))
ARTIFACTS_COMMANDS: Final = commands_topic("artifacts", 6)
ARTIFACTS_EVENTS: Final = events_topic("artifacts", _EVENTS_PARTITIONS, ("timeline", "ingestion"))
TIMELINE_COMMANDS: Final = commands_topic("timeline", 6)
TIMELINE_EVENTS: Final = events_topic("timeline", _EVENTS_PARTITIONS, ("timeline",))
_COMMANDED: Final = ("registry", "runtime", "ingestion", "artifacts", "timeline")
GATEWAY_EVENTS: Final = events_topic("gateway", _EVENTS_PARTITIONS, ("timeline",), tailed_by=("gateway", *_COMMANDED))
INGESTION_WORK: Final = Topic(
    name="ingestion-work",
    kind=TopicKind.WORK,
    owner="ingestion",
    senders=("ingestion",),
    consumers=("ingestion",),
    description="Internal: ingestion work items, distributed across workers.",
    partitions=12,
    retention_ms=3 * _DAY_MS,
)
RUNTIME_DELTAS: Final = Topic(
    name="runtime-deltas",
    kind=TopicKind.DELTAS,
    owner="runtime",
    senders=("runtime",),
    consumers=(),
    description="Pieces of unfinished replies. Some may be lost; the terminal event contains the whole text.",
    partitions=6,
    retention_ms=10 * 60 * 1000,
    segment_ms=10 * 60 * 1000,
    tailed_by=("gateway",),
)

TOPICS: Final[tuple[Topic, ...]] = (
    RUNTIME_COMMANDS,
    RUNTIME_EVENTS,
    RUNTIME_DELTAS,
    REGISTRY_COMMANDS,
    REGISTRY_EVENTS,
    INGESTION_COMMANDS,
    INGESTION_EVENTS,
    INGESTION_WORK,
    ARTIFACTS_COMMANDS,
    ARTIFACTS_EVENTS,
    TIMELINE_COMMANDS,
    TIMELINE_EVENTS,
    GATEWAY_EVENTS,
)
EVENT_TOPICS: Final = tuple(topic for topic in TOPICS if topic.kind is TopicKind.EVENTS)


def topic_of(owner: str, kind: TopicKind) -> Topic:
    """Returns the commands or events topic of a service. Raises ``LookupError`` if the service doesn't have one."""
    for topic in TOPICS:
        if (topic.owner, topic.kind) == (owner, kind):
            return topic
    raise LookupError(f"TOPICS has no topic for the {kind} of '{owner}'")


def dead_letter_name(topic: str, consumer: str) -> str:
    return f"{topic}-{consumer}-dlq"


def dead_letter_topic(topic: Topic, consumer: str) -> Topic:
    """Returns the topic for messages that the consumer couldn't process."""
    return Topic(
        name=dead_letter_name(topic.name, consumer),
        kind=TopicKind.DEAD_LETTERS,
        owner=consumer,
        senders=(consumer,),
        consumers=(),
        description=f"Messages from {topic.name} that the {consumer} service couldn't process, each with the reason.",
        partitions=1,
        retention_ms=30 * _DAY_MS,
    )


def with_dead_letters(topics: Sequence[Topic] = TOPICS) -> tuple[Topic, ...]:
    """Returns these topics and the dead-letter topics of their consumers."""
    dead = [dead_letter_topic(topic, consumer) for topic in topics for consumer in topic.consumers]
    return (*topics, *dead)
