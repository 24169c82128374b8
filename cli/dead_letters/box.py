"""The dead-letter topics of an installation: what lies in them, and which of it was replayed."""

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
from cli.dead_letters.letter import Letter
from cli.dead_letters.replayed import Replayed
from deploy.local.errors import StackError
from libs.contracts.topics import MAX_MESSAGE_BYTES, TOPICS, Topic, TopicKind, dead_letter_name, with_dead_letters
from libs.eventing import refusal

GROUP: Final = "dead-letter-replay"
_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Box:
    """A dead-letter topic by its declared name, and the topic whose messages one consumer put there."""

    name: str
    source: str
    consumer: str


@dataclass(frozen=True)
class Content:
    """Letters are at the offsets from ``first`` to before ``end``: there is one partition and nothing else in it."""

    first: int
    end: int
    replayed: Replayed

    @property
    def count(self) -> int:
        return self.end - self.first

    @property
    def waiting(self) -> list[int]:
        return [offset for offset in range(self.first, self.end) if offset not in self.replayed]


def boxes(topics: Sequence[Topic] = TOPICS) -> list[Box]:
    return [
        Box(topic.name, topic.name.removesuffix(dead_letter_name("", topic.owner)), topic.owner)
        for topic in with_dead_letters(topics)
        if topic.kind is TopicKind.DEAD_LETTERS
    ]


def box_named(name: str) -> Box:
    """Raises StackError for a name that no dead-letter topic has."""
    for box in boxes():
        if box.name == name:
            return box
    raise StackError(f"There is no dead-letter topic named {name}.", "See their names with: ./aes dlq list")


class Reader:
    """Looks into dead-letter topics without changing anything."""

    def __init__(self, consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient, address: BusAddress) -> None:
        self._consumer = consumer
        self._admin = admin
        self._address = address

    async def contents(self, wanted: Sequence[Box]) -> dict[Box, Content]:
        """Of those topics that exist."""
        existing = set(await self._admin.list_topics())
        places = {box: self.place(box.name) for box in wanted if self._address.prefix + box.name in existing}
        if not places:
            return {}
        first = await self._consumer.beginning_offsets(list(places.values()))
        end = await self._consumer.end_offsets(list(places.values()))
        replayed = await self._replayed(list(places.values()))
        return {box: Content(first[at], end[at], replayed.get(at, Replayed())) for box, at in places.items()}

    async def content(self, box: Box) -> Content:
        found = await self.contents([box])
        if box not in found:
            raise StackError(f"The topic {self._address.prefix}{box.name} does not exist.", "Run: ./aes topics create")
        return found[box]

    async def letter(self, box: Box, offset: int) -> Letter:
        """Raises StackError when there is none."""
        record = await self.record(box.name, 0, offset)
        if record is None:
            raise StackError(f"{box.name} has no letter {offset}.", "See what it holds with: ./aes dlq list")
        moment = datetime.fromtimestamp(record.timestamp / 1000, UTC)
        key = (record.key or b"").decode(errors="replace")
        return Letter(offset, key, record.value or b"", tuple(record.headers), moment)

    async def record(self, topic: str, partition: int, offset: int) -> Any:
        """The record there, None when it is not kept any more or not there yet."""
        place = self.place(topic, partition)
        first = (await self._consumer.beginning_offsets([place]))[place]
        end = (await self._consumer.end_offsets([place]))[place]
        if not first <= offset < end:
            return None
        if self._consumer.assignment() != {place}:
            self._consumer.assign([place])
        self._consumer.seek(place, offset)
        async with asyncio.timeout(_SECONDS):
            record = await self._consumer.getone()
        return record if record.offset == offset else None

    def place(self, topic: str, partition: int = 0) -> TopicPartition:
        return TopicPartition(self._address.prefix + topic, partition)

    async def _replayed(self, places: list[TopicPartition]) -> dict[TopicPartition, Replayed]:
        async with asyncio.timeout(_SECONDS):
            while True:
                try:
                    offsets = await self._admin.list_consumer_group_offsets(
                        self._address.prefix + GROUP, partitions=places
                    )
                    return {place: Replayed.read(at.offset, at.metadata) for place, at in offsets.items()}
                except KafkaError as problem:
                    # A broker that has just started makes its group coordinator when first asked for it.
                    if not problem.retriable:
                        raise
                await asyncio.sleep(0.2)


@asynccontextmanager
async def open_boxes(address: BusAddress) -> AsyncIterator[Reader]:
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
        yield Reader(consumer, admin, address)
    except (KafkaError, OSError, TimeoutError) as problem:
        reason = await refusal(address.kafka) or str(problem) or type(problem).__name__
        raise StackError(
            f"Kafka at {address.servers} does not do as asked: {reason}", "See what is wrong with: ./aes doctor"
        ) from problem
    finally:
        await asyncio.gather(consumer.stop(), admin.close())
