"""Sends dead letters to the topic that they came from, each once."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import InvalidProducerEpoch, ProducerFenced
from aiokafka.structs import OffsetAndMetadata

from libs.contracts.errors import Conflict
from libs.contracts.topics import MAX_MESSAGE_BYTES
from libs.eventing.dead_letters._letter import DeadLetter, MetadataTooLong, ReplayOffsets
from libs.eventing.dead_letters._reader import REPLAY_GROUP, DeadLetterReader, DeadLetterTopic

_FENCED: Final = (ProducerFenced, InvalidProducerEpoch)


@dataclass(frozen=True)
class ReplayOutcome:
    offset: int
    refusal: str = ""
    """Why the message was not replayed; empty when it was."""
    repeated: bool = False
    """An earlier replay has sent it."""

    def as_json(self) -> dict[str, Any]:
        return {"offset": self.offset, "replayed": not self.refusal, "reason": self.refusal or None}


class ReplayOvertaken(Conflict):
    """Another replay of the topic has begun; nothing of this one's last letter was sent."""


class Replay:
    """Sends each message and records its replay in one Kafka transaction.

    A later replay of the same topic fences this one off, which then raises ``Conflict``.
    """

    def __init__(self, reader: DeadLetterReader, producer: AIOKafkaProducer, topic: DeadLetterTopic) -> None:
        self._reader = reader
        self._producer = producer
        self._topic = topic

    async def run(self, offsets: Sequence[int]) -> AsyncIterator[ReplayOutcome]:
        """Replays in the order given and skips what another replay has sent meanwhile."""
        content = await self._reader.content(self._topic)
        replayed = content.replayed
        for offset in offsets:
            if offset in replayed:
                yield ReplayOutcome(offset, "It was replayed before.", repeated=True)
                continue
            message = await self._reader.message(self._topic, offset)
            value, refusal = await self._full_payload(message)
            if not refusal:
                replayed = replayed.with_offset(offset, content.first)
                await self._send(message, value, replayed)
            yield ReplayOutcome(offset, refusal)

    async def _full_payload(self, message: DeadLetter) -> tuple[bytes, str]:
        """Returns the message's payload, or the reason why it must not be sent."""
        if message.is_too_old(datetime.now(UTC)):
            return b"", "It is more than 7 days old: other consumers may have forgotten that they had it."
        if message.original_position is None:
            return message.value, ""
        original = await self._reader.record(self._topic.source, *message.original_position)
        if original is None or ("ce_id", (message.header("ce_id") or "").encode()) not in original.headers:
            return (
                b"",
                f"Its payload was too large for a letter, and {self._topic.source} does not keep it.",
            )
        return original.value or b"", ""

    async def _send(self, message: DeadLetter, value: bytes, replayed: ReplayOffsets) -> None:
        partition = self._reader.partition(self._topic.name)
        try:
            done = {partition: OffsetAndMetadata(replayed.position, replayed.metadata())}
            async with self._producer.transaction():
                await self._producer.send_and_wait(
                    self._reader.prefix + self._topic.source,
                    value,
                    key=message.key.encode(),
                    headers=message.original_headers,
                )
                await self._producer.send_offsets_to_transaction(done, self._reader.prefix + REPLAY_GROUP)
        except MetadataTooLong:
            raise Conflict("Too many letters were passed over. Replay the earlier ones of the topic first.") from None
        except _FENCED:
            raise ReplayOvertaken(f"Somebody else has begun to replay {self._topic.name}.") from None


@asynccontextmanager
async def open_replay(reader: DeadLetterReader, topic: DeadLetterTopic, *, client_id: str) -> AsyncIterator[Replay]:
    producer = AIOKafkaProducer(
        **reader.connection.options(),
        client_id=client_id,
        transactional_id=f"{reader.prefix}{REPLAY_GROUP}-{topic.name}",
        max_batch_size=MAX_MESSAGE_BYTES,
        max_request_size=MAX_MESSAGE_BYTES,
    )
    # Initialising the transactional id aborts another replay's open transaction; what it committed is visible after it.
    await producer.start()
    try:
        yield Replay(reader, producer, topic)
    finally:
        await producer.stop()
