"""Consumer lag: how far each consumer group is behind the ends of the declared topics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from prometheus_client import Gauge

from libs.contracts.topics import TOPICS
from libs.eventing._kafka_connection import KafkaConnection
from libs.eventing.administration import kafka_admin_and_consumer

_LAG: Final = Gauge(
    "aes_consumer_lag_messages", "Unprocessed messages in this process's partitions.", ["group", "topic"]
)
_OWNERS: Final = tuple(dict.fromkeys(topic.owner for topic in TOPICS))


def set_lag(group: str, topic: str, messages: int) -> None:
    """Sets the lag metric of this member's partitions."""
    _LAG.labels(group, topic).set(messages)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a consumer group on a partition. If ``committed`` is None, the group hasn't committed an offset."""

    partition: int
    committed: int | None
    end: int
    lag: int


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of a consumer group on a topic. ``state`` is the group's state in Kafka, such as ``Stable``."""

    group: str
    topic: str
    state: str
    members: int
    partitions: tuple[PartitionLag, ...]

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.partitions)


async def read_consumer_lag(connection: KafkaConnection, prefix: str, *, client_id: str) -> list[GroupLag]:
    """Returns the lag of the services' consumer groups on the declared topics, sorted by name.

    Raises ``BusUnavailable``. The caller sets a timeout.
    """
    async with kafka_admin_and_consumer(connection, client_id=client_id) as (admin, consumer):
        partitions = await _partitions(admin, prefix)
        every = [each for found in partitions.values() for each in found]
        # Ends are read first, so that a commit in between can only reduce the lag, not inflate it.
        first, end = await consumer.beginning_offsets(every), await consumer.end_offsets(every)
        groups: list[GroupLag] = []
        for name in await _group_names(admin, prefix):
            offsets = await admin.list_consumer_group_offsets(name)
            state, members = await _members(admin, name)
            # A new or stuck group hasn't committed anything.
            topics = {at.topic for at in offsets} | _assigned(members)
            for topic in sorted(topics & partitions.keys()):
                lags = tuple(_lag(at, offsets.get(at), first[at], end[at]) for at in partitions[topic])
                shown = name.removeprefix(prefix), topic.removeprefix(prefix)
                groups.append(GroupLag(*shown, state, len(members), lags))
        return groups


async def _partitions(admin: AIOKafkaAdminClient, prefix: str) -> dict[str, list[TopicPartition]]:
    declared = {prefix + topic.name for topic in TOPICS if topic.consumers}
    existing = sorted(declared & set(await admin.list_topics()))
    described: Sequence[dict[str, Any]] = await admin.describe_topics(existing) if existing else []
    return {
        each["topic"]: sorted(TopicPartition(each["topic"], part["partition"]) for part in each["partitions"])
        for each in described
    }


async def _group_names(admin: AIOKafkaAdminClient, prefix: str) -> list[str]:
    listed = {name for name, *_ in await admin.list_consumer_groups()}
    owned = tuple(f"{prefix}{owner}-" for owner in _OWNERS)
    return sorted(name for name in listed if name.startswith(owned))


async def _members(admin: AIOKafkaAdminClient, group: str) -> tuple[str, Sequence[Any]]:
    # One group per request, since aiokafka decodes the newest response version as the previous one, which works
    # only for a single group.
    [answer] = await admin.describe_consumer_groups([group])
    [(_, _, state, _, _, members)] = answer.groups
    return state, members


def _assigned(members: Sequence[Any]) -> set[str]:
    """Returns the topics in which the members have partitions."""
    assignments = [ConsumerProtocolMemberAssignment.decode(given) for *_, given in members if given]
    return {topic for each in assignments for topic, _ in each.assignment}


def _lag(at: TopicPartition, committed: Any, first: int, end: int) -> PartitionLag:
    offset = None if committed is None or committed.offset < 0 else committed.offset
    begin = first if offset is None else max(offset, first)
    return PartitionLag(at.partition, offset, end, max(0, end - begin))
