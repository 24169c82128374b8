"""Replays dead-lettered messages to their source topics, each of them once."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import InvalidProducerEpoch, ProducerFenced
from aiokafka.structs import OffsetAndMetadata

from libs.contracts.errors import Conflict
from libs.contracts.topics import MAX_MESSAGE_BYTES
from libs.eventing._kafka_connection import KafkaConnection
from libs.eventing.dead_letters._letter import REPLAY_GROUP, DeadLetter, DeadLetterTopic, MetadataTooLong, ReplayOffsets

if TYPE_CHECKING:
    from libs.eventing.dead_letters._session import DeadLetterSession, TopicContent

_FENCED: Final = (ProducerFenced, InvalidProducerEpoch)


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


class Replay:
    """A replay of a topic's messages. Each message is sent and recorded as replayed in one Kafka transaction.

    A later replay of the same topic fences this one, which then raises ``ReplayOvertaken``.
    """

    def __init__(
        self, session: "DeadLetterSession", producer: AIOKafkaProducer, topic: DeadLetterTopic, content: "TopicContent"
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


def replay_producer(connection: KafkaConnection, *, transactional_id: str, client_id: str) -> AIOKafkaProducer:
    """Returns the producer of a topic's replays. When started, it aborts any other replay's open transaction."""
    return AIOKafkaProducer(
        **connection.options(),
        client_id=client_id,
        transactional_id=transactional_id,
        max_batch_size=MAX_MESSAGE_BYTES,
        max_request_size=MAX_MESSAGE_BYTES,
    )
