"""Reads events from Kafka like any outside consumer: by their headers, without a consumer group."""

import asyncio
from dataclasses import asdict, dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from cli.bus_address import BusAddress
from libs.contracts.messages import public_name
from libs.contracts.topics import EVENT_TOPICS

_PATIENCE_SECONDS = 15.0
_SLACK_SECONDS = 5.0
_ENDS = frozenset({"turn.completed", "turn.failed", "turn.cancelled"})


@dataclass(frozen=True)
class RecordedEvent:
    id: str
    type: str
    subject: str
    sequence: int
    time: str
    causation_id: str | None
    place: str
    """topic[partition]@offset"""

    @property
    def name(self) -> str:
        return public_name(self.type)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


async def read_events(bus: BusAddress, correlation_id: str, since: float, turns: set[str]) -> list[RecordedEvent]:
    """Reads the events of a correlation id since a Unix time, in order, until the given turns have ended.

    Raises OSError or TimeoutError when Kafka does not answer.
    """
    consumer = AIOKafkaConsumer(
        *(bus.prefix + topic.name for topic in EVENT_TOPICS), **bus.kafka.options(), enable_auto_commit=False
    )
    # Delivery is at least once: an event that comes twice has the same id.
    found: dict[str, RecordedEvent] = {}
    open_turns = set(turns)
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await consumer.start()
            ends = await _rewind(consumer, since - _SLACK_SECONDS)
            while open_turns or not await _reached(consumer, ends):
                for batch in (await consumer.getmany(timeout_ms=200)).values():
                    events = [_event(record, bus.prefix, correlation_id) for record in batch]
                    found |= {event.id: event for event in events if event}
                open_turns -= {event.subject for event in found.values() if event.name in _ENDS}
    except KafkaError as problem:
        raise OSError(str(problem) or type(problem).__name__) from problem
    finally:
        await consumer.stop()
    return sorted(found.values(), key=lambda event: (event.time, event.subject, event.sequence))


async def _rewind(consumer: AIOKafkaConsumer, since: float) -> dict[TopicPartition, int]:
    """Seeks to the first records after a time; returns the partitions' present end offsets."""
    partitions = list(consumer.assignment())
    ends = await consumer.end_offsets(partitions)
    starts = await consumer.offsets_for_times(dict.fromkeys(partitions, int(since * 1000)))
    for partition in partitions:
        start = starts[partition]
        consumer.seek(partition, start.offset if start is not None else ends[partition])
    return dict(ends)


async def _reached(consumer: AIOKafkaConsumer, ends: dict[TopicPartition, int]) -> bool:
    return all([await consumer.position(partition) >= end for partition, end in ends.items()])


def _event(record: "ConsumerRecord[bytes, bytes]", prefix: str, correlation_id: str) -> RecordedEvent | None:
    headers = {name: value.decode() for name, value in record.headers}
    if headers.get("ce_correlationid") != correlation_id:
        return None
    return RecordedEvent(
        id=headers["ce_id"],
        type=headers["ce_type"],
        subject=headers["ce_subject"],
        sequence=int(headers.get("ce_sequence", "0")),
        time=headers["ce_time"],
        causation_id=headers.get("ce_causationid"),
        place=f"{record.topic.removeprefix(prefix)}[{record.partition}]@{record.offset}",
    )
