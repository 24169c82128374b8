"""Publishes outbox messages right after their commit."""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from libs.contracts.envelope import Envelope
from libs.contracts.identity import Identity
from libs.contracts.timestamps import format_time
from libs.eventing import _outbox_table as table
from libs.eventing._bus import BusUnavailable, MessageRefused, Producer
from libs.eventing._identity_tokens import IdentitySigner
from libs.eventing._messages import COMMAND_LIFETIME, is_terminal, referring_if_large, send_span, with_current_span
from libs.eventing._outbox_table import OutboxMessage
from libs.persistence import Database, is_outage

_log = structlog.get_logger("eventing.outbox")
# Each request to the broker costs every reader an answer and a request.
_LINGER_SECONDS: Final = 0.01
# Marks cost an UPDATE each; in bulk they cost next to nothing, and one that is lost only means a second delivery.
_FLUSH_SECONDS: Final = 0.1
_FLUSH_ROWS: Final = 500
_ACKNOWLEDGE_SECONDS: Final = 5.0
_DRAIN_SECONDS: Final = 2.0
_RELEASE_SECONDS: Final = 1.0


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
        envelope, value = self.enveloped(message)
        with send_span(message.topic, envelope):
            headers = with_current_span(envelope).headers()
            return await self._producer.send(message.topic, message.correlation_id, value, headers)

    def enveloped(self, message: OutboxMessage) -> tuple[Envelope, bytes]:
        """The message as it goes over the bus."""
        envelope = message.envelope(self.source)
        if message.identity is None:
            return referring_if_large(envelope, message.payload)
        command = replace(
            envelope,
            sequence=0,
            expires_at=format_time(message.created_at + COMMAND_LIFETIME),
        )
        identity = Identity.model_validate(message.identity)
        return self._signer.sign_command(command, identity, message.payload), message.payload


class Publisher:
    """Sends messages in order per subject, right after their commit, and marks them as sent.

    A subject whose message could not be sent is *deferred*: all that follows of it is left to the sweeper, which
    goes by row order, until none of its messages waits any more.
    """

    def __init__(self, database: Database, sender: OutboxSender) -> None:
        self._database = database
        self._sender = sender
        self._queue: deque[OutboxMessage] = deque()
        self._wake = asyncio.Event()
        self._lingering: asyncio.TimerHandle | None = None
        self._sent: list[int] = []
        self._unmarked = asyncio.Event()
        self._in_flight: set[int] = set()
        # Counts how often each subject was deferred, so that a release does not undo a later deferral.
        self._deferred: dict[str, int] = {}

    @property
    def deferred_subjects(self) -> Sequence[str]:
        return list(self._deferred)

    def is_in_flight(self, message: OutboxMessage) -> bool:
        """Whether this process has sent the message and the broker has not acknowledged it yet."""
        return message.id in self._in_flight

    def publish(self, messages: Iterable[OutboxMessage]) -> None:
        """Queue messages whose transaction has been committed.

        They linger, so that a short turn's beginning and end travel in one request. An outcome, for which a caller may
        wait, goes at once and takes along what is queued before it.
        """
        arrived = list(messages)
        self._queue.extend(arrived)
        if any(is_terminal(message.type) for message in arrived):
            self._wake.set()
        elif arrived and self._lingering is None:
            self._lingering = asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._wake.set)

    def send_now(self) -> None:
        """End the linger of the queued messages."""
        if self._queue:
            self._wake.set()

    def defer(self, subjects: Iterable[str]) -> None:
        """Leave these subjects to the sweeper: it is unknown whether their last messages were sent or committed."""
        for subject in subjects:
            self._deferred[subject] = self._deferred.get(subject, 0) + 1
            self._unmarked.set()

    async def run(self) -> None:
        """Send queued messages in order, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._lingering is not None:
                self._lingering.cancel()
                self._lingering = None
            while self._queue:
                await self._send_directly(self._queue.popleft())

    async def _send_directly(self, message: OutboxMessage) -> None:
        if message.subject in self._deferred or not self._sender.healthy:
            self.defer([message.subject])
            return
        try:
            acknowledged = await self._sender.send(message)
        except (BusUnavailable, MessageRefused) as problem:
            _log.warning("message.deferred", **message.log_ids(), problem=str(problem))
            self.defer([message.subject])
            return
        except BaseException:
            # Cancelled between the queue and the broker: no other part of this process knows the message.
            self.defer([message.subject])
            raise
        self._in_flight.add(message.id)
        acknowledged.add_done_callback(lambda done: self._acknowledged(message, done))

    def _acknowledged(self, message: OutboxMessage, done: "Future[None]") -> None:
        self._in_flight.discard(message.id)
        if done.cancelled() or done.exception() is not None:
            self.defer([message.subject])
        else:
            self._sent.append(message.id)
            self._unmarked.set()

    async def republish(self, message: OutboxMessage) -> None:
        """Send a recorded message again under its own id. Raises ``BusUnavailable``."""
        try:
            async with asyncio.timeout(_ACKNOWLEDGE_SECONDS):
                await (await self._sender.send(message))
        except TimeoutError as problem:
            raise BusUnavailable("the broker did not confirm in time") from problem

    async def drain(self) -> None:
        """Wait up to 2 s until the queued messages have been acknowledged, and mark them."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _DRAIN_SECONDS
        self._wake.set()
        while (self._queue or self._in_flight) and loop.time() < deadline:
            await asyncio.sleep(0.01)
        await self.flush()

    async def run_marking(self) -> None:
        """Mark in bulk what the broker has acknowledged, and release deferred subjects, until cancelled."""
        loop = asyncio.get_running_loop()
        released_at = loop.time()
        while True:
            # At rest there is nothing to do for this, and a timer would wake the process ten times a second.
            await self._unmarked.wait()
            await asyncio.sleep(_FLUSH_SECONDS)
            await self.flush()
            if self._deferred and loop.time() - released_at >= _RELEASE_SECONDS:
                released_at = loop.time()
                await self.release()
            if not (self._sent or self._deferred):
                self._unmarked.clear()

    async def flush(self) -> None:
        """Mark acknowledged messages; in an outage of the database they stay for the next time."""
        while self._sent:
            batch, self._sent = self._sent[:_FLUSH_ROWS], self._sent[_FLUSH_ROWS:]
            try:
                async with self._database.connection() as connection:
                    await table.mark_published(connection, batch)
            except Exception as problem:
                self._sent[:0] = batch
                if not is_outage(problem):
                    raise
                _log.warning("outbox.not_marked", rows=len(batch), problem=str(problem))
                return

    async def release(self) -> None:
        """Stop deferring subjects of which nothing waits any more."""
        before = dict(self._deferred)
        try:
            async with self._database.connection() as connection:
                still_waiting = await table.waiting_subjects(connection, list(before))
        except Exception as problem:
            if not is_outage(problem):
                raise
            return
        # One deferred again while the database was asked may have rows that the answer does not know of.
        for subject, times in before.items():
            if subject not in still_waiting and self._deferred.get(subject) == times:
                del self._deferred[subject]
