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
from cli.dead_letters.box import GROUP, Box, Reader
from cli.dead_letters.letter import Letter
from cli.dead_letters.replayed import NoteTooLong, Replayed
from deploy.local.errors import StackError
from libs.contracts.topics import MAX_MESSAGE_BYTES

_OVERTAKEN: Final = (ProducerFenced, InvalidProducerEpoch)


@dataclass(frozen=True)
class Outcome:
    offset: int
    refusal: str = ""
    """Why it was left where it is; empty when it was replayed."""

    def as_json(self) -> dict[str, Any]:
        return {"offset": self.offset, "replayed": not self.refusal, "reason": self.refusal or None}


class Replay:
    """One letter, and the note that it was replayed, are one transaction of the broker.

    Whoever replays the same topic later fences off whoever does it now, who then fails with StackError.
    """

    def __init__(self, reader: Reader, producer: AIOKafkaProducer, box: Box, address: BusAddress) -> None:
        self._reader = reader
        self._producer = producer
        self._box = box
        self._address = address

    async def run(self, offsets: Sequence[int]) -> AsyncIterator[Outcome]:
        """In the order given. What somebody else has replayed since is passed over."""
        content = await self._reader.content(self._box)
        replayed = content.replayed
        for offset in offsets:
            if offset in replayed:
                yield Outcome(offset, "It was replayed before.")
                continue
            letter = await self._reader.letter(self._box, offset)
            value, refusal = await self._whole(letter)
            if not refusal:
                replayed = replayed.with_letter(offset, content.first)
                await self._send(letter, value, replayed)
            yield Outcome(offset, refusal)

    async def _whole(self, letter: Letter) -> tuple[bytes, str]:
        """The message's payload; else why it must not be sent."""
        if letter.is_too_old(datetime.now(UTC)):
            return b"", "It is more than 7 days old: other consumers may have forgotten that they had it."
        if letter.place is None:
            return letter.value, ""
        original = await self._reader.record(self._box.source, *letter.place)
        if original is None or ("ce_id", (letter.header("ce_id") or "").encode()) not in original.headers:
            return b"", f"Its payload was too large for a letter, and {self._box.source} does not keep it any more."
        return original.value or b"", ""

    async def _send(self, letter: Letter, value: bytes, replayed: Replayed) -> None:
        place = self._reader.place(self._box.name)
        try:
            done = {place: OffsetAndMetadata(replayed.position, replayed.note())}
            async with self._producer.transaction():
                await self._producer.send_and_wait(
                    self._address.prefix + self._box.source,
                    value,
                    key=letter.key.encode(),
                    headers=letter.original_headers,
                )
                await self._producer.send_offsets_to_transaction(done, self._address.prefix + GROUP)
        except NoteTooLong:
            raise StackError(
                "Too many letters were passed over.", "Replay the earlier ones of the topic first."
            ) from None
        except _OVERTAKEN:
            raise StackError(
                f"Somebody else has begun to replay {self._box.name}.", "See what is left with: ./aes dlq list"
            ) from None


@asynccontextmanager
async def open_replay(reader: Reader, box: Box, address: BusAddress) -> AsyncIterator[Replay]:
    producer = AIOKafkaProducer(
        **address.kafka.options(),
        client_id="aes-cli",
        transactional_id=f"{address.prefix}{GROUP}-{box.name}",
        max_batch_size=MAX_MESSAGE_BYTES,
        max_request_size=MAX_MESSAGE_BYTES,
    )
    # Taking the transactional id ends what another replay has begun; what it has finished is seen from then on.
    await producer.start()
    try:
        yield Replay(reader, producer, box, address)
    finally:
        await producer.stop()
