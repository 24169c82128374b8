"""Sends messages of the outbox to the broker."""

from asyncio import Future
from dataclasses import replace

from libs.contracts.envelope import Envelope
from libs.contracts.identity import Identity
from libs.contracts.timestamps import format_time
from libs.eventing._bus import Producer
from libs.eventing._identity_tokens import IdentitySigner
from libs.eventing._message_spans import carrying, sending
from libs.eventing._messages import COMMAND_LIFETIME
from libs.eventing._outbox_table import OutboxMessage
from libs.eventing._payloads import referring_if_large


class OutboxSender:
    """Sends an outbox message under the same id and time however often it is sent.

    Commands are signed here and not when they are recorded: a signature must not lie in the database and its backups.
    """

    def __init__(self, producer: Producer, signer: IdentitySigner, *, source: str) -> None:
        self.source = source
        self._producer = producer
        self._signer = signer

    @property
    def healthy(self) -> bool:
        return self._producer.healthy

    async def send(self, message: OutboxMessage) -> "Future[None]":
        """The future ends when the broker has the message. Raises ``BusUnavailable`` and ``MessageRefused``."""
        envelope, value = self._enveloped(message)
        with sending(message.topic, envelope):
            headers = carrying(envelope).headers()
            return await self._producer.send(message.topic, message.correlation_id, value, headers)

    def _enveloped(self, message: OutboxMessage) -> tuple[Envelope, bytes]:
        envelope = message.envelope(self.source)
        if message.identity is None:
            return referring_if_large(envelope, message.payload)
        command = replace(
            envelope,
            sequence=0,
            identity=self._signer.sign(Identity.model_validate(message.identity)),
            expires_at=format_time(message.created_at + COMMAND_LIFETIME),
        )
        return command, message.payload
