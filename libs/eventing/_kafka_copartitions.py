"""Group members on Apache Kafka that share whole copartitions."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from aiokafka.errors import IllegalStateError, KafkaError

from libs.eventing._bus import BusUnavailable, Partition, Record
from libs.eventing._copartitions import copartitions_of, shared_copartitions
from libs.eventing._kafka_readers import KafkaConsumer

_ANSWER_SECONDS: Final = 5.0
_NO_PARTITION: Final = TopicPartition("", -1)


class CopartitionAssignor(AbstractPartitionAssignor):  # type: ignore[misc]
    """Gives each member whole copartitions."""

    name = "aes-copartitions"
    version = 0

    @classmethod
    def assign(
        cls, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        subscribed = {member: frozenset(metadata.subscription) for member, metadata in members.items()}
        numbers = {
            topic: cluster.partitions_for_topic(topic) or () for topic in frozenset().union(*subscribed.values())
        }
        partitions = [Partition(topic, number) for topic in numbers for number in numbers[topic]]
        shares = shared_copartitions(members, partitions, copartitions_of(map(len, numbers.values())) or 1)
        return {member: cls._assignment(shares[member], subscribed[member]) for member in members}

    @classmethod
    def _assignment(cls, share: list[Partition], topics: frozenset[str]) -> ConsumerProtocolMemberAssignment:
        # During a rolling upgrade a member may not know a topic yet; its partitions wait for the upgrade's end.
        numbers = {topic: [number for name, number in share if name == topic] for topic in topics}
        return ConsumerProtocolMemberAssignment(cls.version, sorted((t, n) for t, n in numbers.items() if n), b"")

    @classmethod
    def metadata(cls, topics: Any) -> ConsumerProtocolMemberMetadata:
        return ConsumerProtocolMemberMetadata(cls.version, list(topics), b"")

    @classmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Keeps nothing of it."""


class KafkaCopartitionConsumer(KafkaConsumer):
    """A group member that begins where it is told, and knows when its partitions have nothing more."""

    def copartitions(self) -> int:
        counts = (len(self._consumer.partitions_for_topic(topic) or ()) for topic in self._topics)
        return copartitions_of(counts) or 1

    async def seek(self, offsets: Mapping[Partition, int]) -> frozenset[Partition]:
        consumer = self._consumer
        assigned = consumer.assignment()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                first = await consumer.beginning_offsets(list(assigned)) if assigned else {}
                end = await consumer.end_offsets(list(assigned)) if assigned else {}
            for partition in assigned:
                wanted = offsets.get(Partition(self._declared(partition.topic), partition.partition), -1)
                found = wanted if first[partition] <= wanted <= end[partition] else first[partition]
                consumer.seek(partition, found)
        except (KafkaError, IllegalStateError, TimeoutError) as problem:
            raise BusUnavailable(f"the partitions cannot be read: {problem!r}") from problem
        return self.partitions_of(assigned)

    async def poll(self, timeout: float, limit: int, partitions: frozenset[Partition] | None = None) -> list[Record]:
        assigned = self._consumer.assignment()
        wanted = {TopicPartition(self._prefix + topic, number) for topic, number in partitions or ()} & assigned
        self._consumer.resume(*wanted)
        # A member has to poll also when it has or wants no partition; the client takes none for all.
        records = await self._fetch(timeout, limit, *(wanted or [_NO_PARTITION]))
        self.fetches.polled(bool(records) or wanted != assigned)
        # Otherwise the client would fetch again at once, and that fetch would end with the next single record.
        self._consumer.pause(*self._consumer.assignment())
        return records

    def drained(self) -> dict[Partition, float]:
        found = {}
        for partition in self._consumer.assignment():
            # The last record does not tell: the mark at the end of a transaction takes an offset behind it, and the
            # client passes over that without giving out anything.
            at = self._consumer._subscription.subscription.assignment.state_value(partition)
            if at.highwater is not None and at.has_valid_position and at.highwater <= at.position:
                found[Partition(self._declared(partition.topic), partition.partition)] = self._answered(partition)
        return found

    def _answered(self, partition: TopicPartition) -> float:
        now = super()._answered(partition)
        assigned = partition in self._consumer.assignment()
        answered = self._consumer.last_poll_timestamp(partition) if assigned else None
        return now if answered is None else now - max(time.time() - answered / 1000, 0.0)
