"""Reads and replays the dead-lettered messages of an installation."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import InvalidProducerEpoch, KafkaError, ProducerFenced
from aiokafka.structs import OffsetAndMetadata

from libs.contracts.errors import Conflict, NotFound
from libs.contracts.topics import MAX_MESSAGE_BYTES, TopicKind, dead_letter_name, with_dead_letters
from libs.eventing._kafka_connection import KafkaConnection
from libs.eventing.administration import kafka_admin_and_consumer
from libs.eventing.dead_letters._letter import REPLAY_GROUP, DeadLetter, DeadLetterTopic, MetadataTooLong, ReplayOffsets
from libs.retry import RetryPolicy

_SECONDS: Final = 30.0
_RETRIES: Final = RetryPolicy(first=0.2, longest=0.2)
_FENCED: Final = (ProducerFenced, InvalidProducerEpoch)
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


@dataclass(frozen=True)
class ReplayOutcome:
    offset: int
    refusal: str = ""
    """The reason why the message wasn't replayed, or an empty string."""
    repeated: bool = False
    """An earlier replay has already sent the message."""

    def as_json(self) -> dict[str, Any]:
        return {"offset": self.offset, "replayed": not self.refusal, "reason": self.refusal or None}


class ReplayOvertaken(Conflict):
    """Another replay of the topic has started. This replay didn't send its current message."""


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
    async def replaying(self, topic: DeadLetterTopic) -> AsyncIterator["Replay"]:
        """Opens a replay of several messages of a topic. Raises ``NotFound`` if the topic was never created."""
        name = f"{self.prefix}{REPLAY_GROUP}-{topic.name}"
        async with _replay_producer(self._connection, transactional_id=name, client_id=self._client_id) as producer:
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


class Replay:
    """A replay of a topic's messages. Each message is sent and recorded as replayed in one Kafka transaction.

    A later replay of the same topic fences this one, which then raises ``ReplayOvertaken``.
    """

    def __init__(
        self, session: DeadLetterSession, producer: AIOKafkaProducer, topic: DeadLetterTopic, content: TopicContent
    ) -> None:
        self._session = session
        self._producer = producer
        self._topic = topic
        self._first = content.first
        self._replayed = content.replayed

    async def send(self, offset: int) -> ReplayOutcome:
        """Replays one message. Raises ``NotFound``, or ``Conflict`` if too many earlier messages were skipped."""
        if offset in self._replayed:
            return ReplayOutcome(offset, "The message was already replayed.", repeated=True)
        message = await self._session.message(self._topic, offset)
        value, refusal = await self._full_payload(message)
        if not refusal:
            replayed = self._replayed.with_offset(offset, self._first)
            await self._send(message, value, replayed)
            self._replayed = replayed
        return ReplayOutcome(offset, refusal)

    async def _full_payload(self, message: DeadLetter) -> tuple[bytes, str]:
        """Returns the complete payload of the message, or the reason why the message can't be sent."""
        if message.is_too_old(datetime.now(UTC)):
            return b"", "The message is more than 7 days old. If it were replayed, consumers might process it twice."
        if message.original_position is None:
            return message.value, ""
        original = await self._session.record(self._topic.source, *message.original_position)
        if original is None or ("ce_id", (message.header("ce_id") or "").encode()) not in original.headers:
            return (
                b"",
                f"The payload was too large for the dead-letter topic, and {self._topic.source} no longer contains it.",
            )
        return original.value or b"", ""

    async def _send(self, message: DeadLetter, value: bytes, replayed: ReplayOffsets) -> None:
        partition = self._session.partition(self._topic.name)
        try:
            done = {partition: OffsetAndMetadata(replayed.position, replayed.metadata())}
            async with self._producer.transaction():
                await self._producer.send_and_wait(
                    self._session.prefix + self._topic.source,
                    value,
                    key=message.key.encode(),
                    headers=message.original_headers,
                )
                await self._producer.send_offsets_to_transaction(done, self._session.prefix + REPLAY_GROUP)
        except MetadataTooLong:
            raise Conflict("Too many messages were skipped. Replay the topic's earlier messages first.") from None
        except _FENCED:
            raise ReplayOvertaken(
                f"Another replay of {self._topic.name} has started. Try again once it has ended."
            ) from None


def _replay_producer(connection: KafkaConnection, *, transactional_id: str, client_id: str) -> AIOKafkaProducer:
    """Returns the producer of a topic's replays. When started, it aborts any other replay's open transaction."""
    return AIOKafkaProducer(
        **connection.options(),
        client_id=client_id,
        transactional_id=transactional_id,
        max_batch_size=MAX_MESSAGE_BYTES,
        max_request_size=MAX_MESSAGE_BYTES,
    )


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
