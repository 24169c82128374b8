"""Sends dead letters to the topic that they came from, each once."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import InvalidProducerEpoch, ProducerFenced
from aiokafka.structs import OffsetAndMetadata

from cli.bus_address import BusAddress
from cli.dlq.dlq_message import DlqMessage
from cli.dlq.dlq_topic import GROUP, DlqReader, DlqTopic
from cli.dlq.replay_offsets import MetadataTooLong, ReplayOffsets
from deploy.local.errors import StackError
from libs.contracts.topics import MAX_MESSAGE_BYTES

_FENCED: Final = (ProducerFenced, InvalidProducerEpoch)


@dataclass(frozen=True)
class Outcome:
    offset: int
    refusal: str = ""
    """Why the message was not replayed; empty when it was."""

    def as_json(self) -> dict[str, Any]:
        return {"offset": self.offset, "replayed": not self.refusal, "reason": self.refusal or None}


class Replay:
    """Sends each message and records its replay in one Kafka transaction.

    A later replay of the same topic fences this one off, which then fails with StackError.
    """

    def __init__(self, reader: DlqReader, producer: AIOKafkaProducer, dlq_topic: DlqTopic, address: BusAddress) -> None:
        self._reader = reader
        self._producer = producer
        self._dlq_topic = dlq_topic
        self._address = address

    async def run(self, offsets: Sequence[int]) -> AsyncIterator[Outcome]:
        """Replays in the order given and skips what another replay has sent meanwhile."""
        content = await self._reader.content(self._dlq_topic)
        replayed = content.replayed
        for offset in offsets:
            if offset in replayed:
                yield Outcome(offset, "It was replayed before.")
                continue
            message = await self._reader.message(self._dlq_topic, offset)
            value, refusal = await self._full_payload(message)
            if not refusal:
                replayed = replayed.with_offset(offset, content.first)
                await self._send(message, value, replayed)
            yield Outcome(offset, refusal)

    async def _full_payload(self, message: DlqMessage) -> tuple[bytes, str]:
        """Returns the message's payload, or the reason why it must not be sent."""
        if message.is_too_old(datetime.now(UTC)):
            return b"", "It is more than 7 days old: other consumers may have forgotten that they had it."
        if message.original_position is None:
            return message.value, ""
        original = await self._reader.record(self._dlq_topic.source, *message.original_position)
        if original is None or ("ce_id", (message.header("ce_id") or "").encode()) not in original.headers:
            return (
                b"",
                f"Its payload was too large for a letter, and {self._dlq_topic.source} does not keep it.",
            )
        return original.value or b"", ""

    async def _send(self, message: DlqMessage, value: bytes, replayed: ReplayOffsets) -> None:
        partition = self._reader.partition(self._dlq_topic.name)
        try:
            done = {partition: OffsetAndMetadata(replayed.position, replayed.metadata())}
            async with self._producer.transaction():
                await self._producer.send_and_wait(
                    self._address.prefix + self._dlq_topic.source,
                    value,
                    key=message.key.encode(),
                    headers=message.original_headers,
                )
                await self._producer.send_offsets_to_transaction(done, self._address.prefix + GROUP)
        except MetadataTooLong:
            raise StackError(
                "Too many letters were passed over.", "Replay the earlier ones of the topic first."
            ) from None
        except _FENCED:
            raise StackError(
                f"Somebody else has begun to replay {self._dlq_topic.name}.", "See what is left with: ./aes dlq list"
            ) from None


@asynccontextmanager
async def open_replay(reader: DlqReader, dlq_topic: DlqTopic, address: BusAddress) -> AsyncIterator[Replay]:
    producer = AIOKafkaProducer(
        **address.kafka.options(),
        client_id="aes-cli",
        transactional_id=f"{address.prefix}{GROUP}-{dlq_topic.name}",
        max_batch_size=MAX_MESSAGE_BYTES,
        max_request_size=MAX_MESSAGE_BYTES,
    )
    # Initialising the transactional id aborts another replay's open transaction; what it committed is visible after it.
    await producer.start()
    try:
        yield Replay(reader, producer, dlq_topic, address)
    finally:
        await producer.stop()
