"""Reads Kafka from the beginning by headers, as an outside consumer may."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord, TopicPartition

from libs.contracts.messages import public_name
from libs.contracts.topics import EVENT_TOPICS
from libs.eventing import KafkaConnection
from tests.support.waiting import until

_TOPICS = tuple(topic.name for topic in EVENT_TOPICS)
ENDS = frozenset({"turn.completed", "turn.failed", "turn.cancelled"})


@dataclass(frozen=True)
class BusEvent:
    id: str
    name: str
    subject: str
    sequence: int
    correlation_id: str
    key: str
    payload: Any


class EventLog:
    def __init__(self, kafka: KafkaConnection | str) -> None:
        self._kafka = KafkaConnection.of(kafka)
        self._read: defaultdict[str, list[ConsumerRecord[bytes, bytes]]] = defaultdict(list)
        """Records read so far, by correlation id."""
        self._positions: dict[TopicPartition, int] = {}

    async def read(self, correlation_ids: Iterable[str], topics: Iterable[str] = _TOPICS) -> list[BusEvent]:
        """The messages of those correlation ids published so far; each once, though Kafka may hold it twice."""
        topics = set(topics)
        await self._read_on(topics)
        records = (record for name in set(correlation_ids) for record in self._read[name] if record.topic in topics)
        found = {event.id: event for event in map(_event, records)}
        return sorted(found.values(), key=lambda event: (event.subject, event.sequence))

    async def _read_on(self, topics: Iterable[str]) -> None:
        """Reads what has come since the last time."""
        consumer = AIOKafkaConsumer(
            *topics,
            **self._kafka.options(),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        try:
            await consumer.start()
            partitions = consumer.assignment()
            for place in partitions:
                consumer.seek(place, self._positions.get(place, 0))
            ends = await consumer.end_offsets(list(partitions))
            while any([await consumer.position(place) < end for place, end in ends.items()]):
                for place, batch in (await consumer.getmany(timeout_ms=500)).items():
                    for record in batch:
                        self._read[_headers(record)["ce_correlationid"]].append(record)
                    self._positions[place] = batch[-1].offset + 1
        finally:
            await consumer.stop()

    async def ended(self, correlation_ids: Iterable[str]) -> list[BusEvent]:
        """The events, once a turn of each correlation id has ended. A broker that is away is waited for."""
        wanted = set(correlation_ids)

        async def look() -> list[BusEvent] | None:
            try:
                events = await self.read(wanted)
            except KafkaError:
                return None
            return events if {event.correlation_id for event in events if event.name in ENDS} == wanted else None

        return await until(look, pause=1)


def count_by_subject(events: Iterable[BusEvent], *names: str) -> Counter[str]:
    return Counter(event.subject for event in events if event.name in names)


def _headers(record: "ConsumerRecord[bytes, bytes]") -> dict[str, str]:
    return {name: value.decode() for name, value in record.headers}


def _event(record: "ConsumerRecord[bytes, bytes]") -> BusEvent:
    headers = _headers(record)
    return BusEvent(
        id=headers["ce_id"],
        name=public_name(headers["ce_type"]),
        subject=headers["ce_subject"],
        sequence=int(headers.get("ce_sequence", "0")),
        correlation_id=headers["ce_correlationid"],
        key=(record.key or b"").decode(),
        payload=orjson.loads(record.value or b"null"),
    )
