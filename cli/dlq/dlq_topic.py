"""Reads the dead-letter topics of an installation and which of their messages were replayed."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from cli.bus_address import BusAddress
from cli.dlq.dlq_message import DlqMessage
from cli.dlq.replay_offsets import ReplayOffsets
from deploy.local.errors import StackError
from libs.contracts.topics import MAX_MESSAGE_BYTES, TOPICS, Topic, TopicKind, dead_letter_name, with_dead_letters
from libs.eventing import connection_diagnostics
from libs.retry import RetryPolicy

GROUP: Final = "dead-letter-replay"
_SECONDS: Final = 30.0
_RETRIES: Final = RetryPolicy(first=0.2, longest=0.2)


@dataclass(frozen=True)
class DlqTopic:
    """A dead-letter topic: its declared name, the source topic and the consumer that dead-letters into it."""

    name: str
    source: str
    consumer: str


@dataclass(frozen=True)
class TopicContent:
    """Messages have the offsets from ``first`` to before ``end`` of the topic's only partition."""

    first: int
    end: int
    replayed: ReplayOffsets

    @property
    def count(self) -> int:
        return self.end - self.first

    @property
    def waiting(self) -> list[int]:
        return [offset for offset in range(self.first, self.end) if offset not in self.replayed]


def dlq_topics(topics: Sequence[Topic] = TOPICS) -> list[DlqTopic]:
    return [
        DlqTopic(topic.name, topic.name.removesuffix(dead_letter_name("", topic.owner)), topic.owner)
        for topic in with_dead_letters(topics)
        if topic.kind is TopicKind.DEAD_LETTERS
    ]


def dlq_topic_named(name: str) -> DlqTopic:
    """Finds a topic by name. Raises StackError for an unknown one."""
    for dlq_topic in dlq_topics():
        if dlq_topic.name == name:
            return dlq_topic
    raise StackError(f"There is no dead-letter topic named {name}.", "See their names with: ./aes dlq list")


class DlqReader:
    """Reads dead-letter topics without changing anything."""

    def __init__(self, consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient, address: BusAddress) -> None:
        self._consumer = consumer
        self._admin = admin
        self._address = address

    async def contents(self, wanted: Sequence[DlqTopic]) -> dict[DlqTopic, TopicContent]:
        """Returns the content of each wanted topic that exists."""
        existing = set(await self._admin.list_topics())
        partitions = {
            dlq_topic: self.partition(dlq_topic.name)
            for dlq_topic in wanted
            if self._address.prefix + dlq_topic.name in existing
        }
        if not partitions:
            return {}
        first = await self._consumer.beginning_offsets(list(partitions.values()))
        end = await self._consumer.end_offsets(list(partitions.values()))
        replayed = await self._replayed(list(partitions.values()))
        return {
            dlq_topic: TopicContent(first[at], end[at], replayed.get(at, ReplayOffsets()))
            for dlq_topic, at in partitions.items()
        }

    async def content(self, dlq_topic: DlqTopic) -> TopicContent:
        found = await self.contents([dlq_topic])
        if dlq_topic not in found:
            raise StackError(
                f"The topic {self._address.prefix}{dlq_topic.name} does not exist.", "Run: ./aes topics create"
            )
        return found[dlq_topic]

    async def message(self, dlq_topic: DlqTopic, offset: int) -> DlqMessage:
        """Raises StackError when there is none."""
        record = await self.record(dlq_topic.name, 0, offset)
        if record is None:
            raise StackError(f"{dlq_topic.name} has no letter {offset}.", "See what it holds with: ./aes dlq list")
        moment = datetime.fromtimestamp(record.timestamp / 1000, UTC)
        key = (record.key or b"").decode(errors="replace")
        return DlqMessage(offset, key, record.value or b"", tuple(record.headers), moment)

    async def record(self, topic: str, partition: int, offset: int) -> Any:
        """Reads one record; None when it has expired or does not exist yet."""
        partition = self.partition(topic, partition)
        first = (await self._consumer.beginning_offsets([partition]))[partition]
        end = (await self._consumer.end_offsets([partition]))[partition]
        if not first <= offset < end:
            return None
        if self._consumer.assignment() != {partition}:
            self._consumer.assign([partition])
        self._consumer.seek(partition, offset)
        async with asyncio.timeout(_SECONDS):
            record = await self._consumer.getone()
        return record if record.offset == offset else None

    def partition(self, topic: str, partition: int = 0) -> TopicPartition:
        return TopicPartition(self._address.prefix + topic, partition)

    async def _replayed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, ReplayOffsets]:
        group = self._address.prefix + GROUP
        async with asyncio.timeout(_SECONDS):
            # A broker that has just started makes its group coordinator when first asked for it.
            offsets = await _RETRIES.run(
                lambda: self._admin.list_consumer_group_offsets(group, partitions=partitions),
                on=KafkaError,
                when=lambda problem: isinstance(problem, KafkaError) and problem.retriable,
            )
        return {partition: ReplayOffsets.read(at.offset, at.metadata) for partition, at in offsets.items()}


@asynccontextmanager
async def open_dlq_reader(address: BusAddress) -> AsyncIterator[DlqReader]:
    """Raises StackError when the broker cannot be reached, or fails meanwhile."""
    consumer = AIOKafkaConsumer(
        **address.kafka.options(),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=MAX_MESSAGE_BYTES,
        client_id="aes-cli",
    )
    admin = AIOKafkaAdminClient(**address.kafka.options(), client_id="aes-cli")
    try:
        async with asyncio.timeout(_SECONDS):
            await consumer.start()
            await admin.start()
        yield DlqReader(consumer, admin, address)
    except (KafkaError, OSError, TimeoutError) as problem:
        reason = await connection_diagnostics(address.kafka) or str(problem) or type(problem).__name__
        raise StackError(
            f"Kafka at {address.servers} does not do as asked: {reason}", "See what is wrong with: ./aes doctor"
        ) from problem
    finally:
        await asyncio.gather(consumer.stop(), admin.close())
