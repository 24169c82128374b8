"""Reads and replays the dead-lettered messages of an installation."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from libs.contracts.errors import NotFound
from libs.contracts.topics import MAX_MESSAGE_BYTES, TopicKind, dead_letter_name, with_dead_letters
from libs.eventing._kafka_connection import KafkaConnection
from libs.eventing.administration import kafka_admin_and_consumer
from libs.eventing.dead_letters._letter import REPLAY_GROUP, DeadLetter, DeadLetterTopic, ReplayOffsets
from libs.eventing.dead_letters._replay import Replay, ReplayOutcome, replay_producer
from libs.retry import RetryPolicy

_SECONDS: Final = 30.0
_RETRIES: Final = RetryPolicy(first=0.2, longest=0.2)
# The number of records in memory at once. Each can have 2 MiB.
_BATCH: Final = 10


@dataclass(frozen=True)
class TopicContent:
    """The offsets in a topic's only partition, from ``first`` (inclusive) to ``end`` (exclusive)."""

    first: int
    end: int
    replayed: ReplayOffsets

    @property
    def count(self) -> int:
        return self.end - self.first

    @property
    def waiting(self) -> list[int]:
        return [offset for offset in range(self.first, self.end) if offset not in self.replayed]


def dead_letter_topics() -> list[DeadLetterTopic]:
    return [
        DeadLetterTopic(topic.name, topic.name.removesuffix(dead_letter_name("", topic.owner)), topic.owner)
        for topic in with_dead_letters()
        if topic.kind is TopicKind.DEAD_LETTERS
    ]


def dead_letter_topic_named(name: str) -> DeadLetterTopic:
    """Returns the dead-letter topic with this name. Raises ``NotFound``."""
    for topic in dead_letter_topics():
        if topic.name == name:
            return topic
    raise NotFound(f"There is no dead-letter topic named {name}.")


class DeadLetterSession:
    """A connection to the dead-letter topics."""

    def __init__(
        self,
        admin: AIOKafkaAdminClient,
        consumer: AIOKafkaConsumer,
        connection: KafkaConnection,
        prefix: str,
        client_id: str,
    ) -> None:
        self.prefix = prefix
        self._admin = admin
        self._consumer = consumer
        self._connection = connection
        self._client_id = client_id

    async def contents(self, wanted: Sequence[DeadLetterTopic]) -> dict[DeadLetterTopic, TopicContent]:
        """Returns the contents of the topics, except topics that don't exist."""
        existing = set(await self._admin.list_topics())
        partitions = {topic: self.partition(topic.name) for topic in wanted if self.prefix + topic.name in existing}
        if not partitions:
            return {}
        first = await self._consumer.beginning_offsets(list(partitions.values()))
        end = await self._consumer.end_offsets(list(partitions.values()))
        replayed = await self._replayed(list(partitions.values()))
        return {
            topic: TopicContent(first[at], end[at], replayed.get(at, ReplayOffsets()))
            for topic, at in partitions.items()
        }

    async def content(self, topic: DeadLetterTopic) -> TopicContent:
        """Returns the content of a topic. Raises ``NotFound`` if the topic was never created."""
        found = await self.contents([topic])
        if topic not in found:
            raise NotFound(f"The topic {self.prefix}{topic.name} doesn't exist.")
        return found[topic]

    async def message(self, topic: DeadLetterTopic, offset: int) -> DeadLetter:
        """Returns the message at the offset. Raises ``NotFound``."""
        record = await self.record(topic.name, 0, offset)
        if record is None:
            raise NotFound(f"{topic.name} has no message at offset {offset}.")
        return _letter(record)

    async def messages(self, topic: DeadLetterTopic, first: int, end: int) -> list[DeadLetter]:
        """Returns the messages from ``first`` (inclusive) to ``end`` (exclusive), without payloads, oldest first."""
        partition = self.partition(topic.name)
        self._go_to(partition, first)
        found: list[DeadLetter] = []
        async with asyncio.timeout(_SECONDS):
            while (position := await self._consumer.position(partition)) < end:
                batches = await self._consumer.getmany(
                    partition, timeout_ms=500, max_records=min(_BATCH, end - position)
                )
                found += [_letter(each).without_payload() for each in batches.get(partition, ()) if each.offset < end]
        return found

    async def record(self, topic: str, partition: int, offset: int) -> Any:
        """Reads the record at an offset. Returns None if it has expired or doesn't exist yet."""
        at = self.partition(topic, partition)
        first = (await self._consumer.beginning_offsets([at]))[at]
        end = (await self._consumer.end_offsets([at]))[at]
        if not first <= offset < end:
            return None
        self._go_to(at, offset)
        async with asyncio.timeout(_SECONDS):
            record = await self._consumer.getone()
        return record if record.offset == offset else None

    async def replay(self, topic: DeadLetterTopic, offset: int) -> ReplayOutcome:
        """Replays a message, unless it has already been replayed.

        Raises ``ReplayOvertaken``, without sending the message, if another process starts a replay of the topic.
        """
        async with self.replaying(topic) as replay:
            return await replay.send(offset)

    @asynccontextmanager
    async def replaying(self, topic: DeadLetterTopic) -> AsyncIterator[Replay]:
        """Opens a replay of several messages of a topic. Raises ``NotFound`` if the topic was never created."""
        name = f"{self.prefix}{REPLAY_GROUP}-{topic.name}"
        async with replay_producer(self._connection, transactional_id=name, client_id=self._client_id) as producer:
            yield Replay(self, producer, topic, await self.content(topic))

    def partition(self, topic: str, partition: int = 0) -> TopicPartition:
        return TopicPartition(self.prefix + topic, partition)

    def _go_to(self, partition: TopicPartition, offset: int) -> None:
        if self._consumer.assignment() != {partition}:
            self._consumer.assign([partition])
        self._consumer.seek(partition, offset)

    async def _replayed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, ReplayOffsets]:
        group = self.prefix + REPLAY_GROUP
        async with asyncio.timeout(_SECONDS):
            # A broker that has just started creates its group coordinator on the first request.
            offsets = await _RETRIES.run(
                lambda: self._admin.list_consumer_group_offsets(group, partitions=partitions),
                on=KafkaError,
                when=lambda problem: isinstance(problem, KafkaError) and problem.retriable,
            )
        return {partition: ReplayOffsets.read(at.offset, at.metadata) for partition, at in offsets.items()}


def _letter(record: Any) -> DeadLetter:
    arrived = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    key = (record.key or b"").decode(errors="replace")
    return DeadLetter(record.offset, key, record.value or b"", tuple(record.headers), arrived)


@asynccontextmanager
async def open_dead_letters(
    connection: KafkaConnection, prefix: str, *, client_id: str
) -> AsyncIterator[DeadLetterSession]:
    """Opens a session. Raises ``BusUnavailable`` if the broker can't be reached or fails during the session."""
    async with kafka_admin_and_consumer(
        connection, client_id=client_id, auto_offset_reset="earliest", max_partition_fetch_bytes=MAX_MESSAGE_BYTES
    ) as (admin, consumer):
        yield DeadLetterSession(admin, consumer, connection, prefix, client_id)
