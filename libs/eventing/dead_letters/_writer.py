"""Writes messages that can't be processed to dead-letter topics."""

from collections.abc import Sequence

import structlog

from libs.contracts.timestamps import now_text
from libs.contracts.topics import dead_letter_name
from libs.eventing import _metrics as metrics
from libs.eventing.bus import MessageRefused, Producer, Record

_log = structlog.get_logger("eventing.dead_letters")


class DeadLetters:
    """Writes the messages that a consumer can't process to its dead-letter topics."""

    def __init__(self, producer: Producer, *, consumer: str) -> None:
        self._producer = producer
        self._consumer = consumer

    def expect(self, topics: Sequence[str]) -> None:
        """Initializes the counters of these topics to 0, so that Prometheus sees their first increase."""
        for topic in topics:
            metrics.dead_letters(self._consumer, topic)

    async def put(self, record: Record, *, reason: str, attempts: int) -> None:
        """Dead-letters a record. Returns once the broker has stored it. Raises ``BusUnavailable``."""
        topic = dead_letter_name(record.topic, self._consumer)
        headers = [
            *record.headers,
            ("dlq_topic", record.topic.encode()),
            ("dlq_partition", str(record.partition).encode()),
            ("dlq_offset", str(record.offset).encode()),
            ("dlq_reason", reason.encode()[:4000]),
            ("dlq_attempts", str(attempts).encode()),
            ("dlq_time", now_text().encode()),
        ]
        try:
            await (await self._producer.send(topic, record.key, record.value, headers))
        except MessageRefused:
            # The added headers made the message too large. They contain the position of the original.
            headers.append(("dlq_omitted_bytes", str(len(record.value)).encode()))
            await (await self._producer.send(topic, record.key, b"", headers))
        metrics.dead_letters(self._consumer, record.topic).inc()
        _log.error(
            "message.dead_lettered",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            reason=reason,
        )
