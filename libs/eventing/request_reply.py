"""Request and reply over the bus: sends commands and waits for the resulting events."""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, Generic, TypeVar

import structlog

from libs.contracts.errors import ServiceError, ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.messages import Command, Envelope, PoisonMessage, Received, envelope_from
from libs.contracts.timestamps import format_time
from libs.contracts.topics import RUNTIME_DELTAS, RUNTIME_EVENTS, TOPICS, Topic, TopicKind
from libs.eventing._identity_tokens import IdentitySigner
from libs.eventing.bus import Bus, BusUnavailable, MessageRefused, Partition, Producer, Record, Tail
from libs.eventing.messages import OnEvent, PayloadCorrupt, PayloadReader, send_span, with_current_span
from libs.retry import RetryPolicy
from libs.tracing import current_traceparent

T = TypeVar("T")
MOST_UNREAD: Final = 2000
"""The maximum number of unread events. For a turn, that's a minute of text in pieces of 30 ms."""
MAX_EVENTS: Final = 64
"""The maximum number of events per read."""
_POLL_SECONDS: Final = 10.0
_CATCH_UP_SECONDS: Final = 0.5
_FRESH_SECONDS: Final = 10.0
_RECONNECT: Final = RetryPolicy(first=0.5, longest=0.5)
_log = structlog.get_logger("eventing.request_reply")
# The gateway returns 503 within five seconds.
_SEND_SECONDS: Final = 4.0
_SILENCE_SECONDS: Final = 2.0
_LONGEST_SILENCE_SECONDS: Final = 15.0
_LOOK_UP_SECONDS: Final = 5.0


class TailReader:
    """Passes each record of some topics to a callback exactly once, even if the broker is temporarily unavailable.

    Reading starts at the end of the topics or, with ``from_start``, at the first retained record. ``caught_up`` is set
    once all records that were sent before reading started have been passed on.
    """

    def __init__(
        self, bus: Bus, topics: Sequence[str], on_record: Callable[[Record], None], *, from_start: bool = False
    ) -> None:
        self.caught_up = asyncio.Event()
        self._bus = bus
        self._topics = topics
        self._on_record = on_record
        self._from_start = from_start
        self._tail: Tail | None = None
        self._offsets: Mapping[Partition, int] = {}
        self._fresh_until = float("-inf")

    @property
    def fresh(self) -> bool:
        """Returns whether the broker has responded within the last few seconds, so that no recent event is missing."""
        if self._tail is None:
            return False
        now = asyncio.get_running_loop().time()
        # Cached, since every request reads this property, and checking all partitions is slow.
        if now >= self._fresh_until:
            self._fresh_until = self._tail.answered() + _FRESH_SECONDS
        return now < self._fresh_until

    async def run(self) -> None:
        """Reads until cancelled. If the broker is unreachable, waits for the broker."""
        await _RECONNECT.run(self._follow, on=BusUnavailable, before_sleep=self._log)

    def _log(self, problem: Exception, _attempt: int) -> None:
        _log.warning("tail.unreachable", topics=list(self._topics), problem=str(problem))

    async def _follow(self) -> None:
        tail = self._bus.tail(self._topics, from_start=self._from_start, offsets=self._offsets)
        try:
            await tail.start()
            self._tail, self._fresh_until = tail, float("-inf")
            await self._read(tail)
        finally:
            self._tail, self._offsets = None, tail.offsets
            await tail.stop()

    async def _read(self, tail: Tail) -> None:
        while True:
            if not self.caught_up.is_set() and await tail.caught_up():
                self.caught_up.set()
            seconds = _POLL_SECONDS if self.caught_up.is_set() else _CATCH_UP_SECONDS
            for record in await tail.poll(seconds):
                self._on_record(record)


class ReadTooSlowly(ServiceUnavailable):
    """The reader was disconnected because it had too many unread events."""

    def __init__(self) -> None:
        super().__init__(
            "The events were read too slowly. Reconnect with the ID of the last event you received.", retry_after=1
        )


class EventQueue(Generic[T]):
    """A bounded queue. If it overflows, it disconnects the reader and calls ``on_overflow``."""

    __slots__ = ("_is_reminded", "_on_overflow", "_problem", "_unread", "_waiter")

    def __init__(self, on_overflow: Callable[[], None] = lambda: None) -> None:
        self._on_overflow = on_overflow
        self._unread: deque[T] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._problem: ServiceError | None = None
        self._is_reminded = False

    def offer(self, events: Sequence[T]) -> None:
        """Queues events without waking the reader."""
        if self._problem is not None:
            return
        if len(self._unread) + len(events) > MOST_UNREAD:
            self._on_overflow()
            self.end(ReadTooSlowly())
            return
        self._is_reminded = False
        self._unread.extend(events)

    def end(self, problem: ServiceError) -> None:
        """Makes ``next`` raise ``problem`` from now on."""
        self._problem = problem
        self._unread.clear()
        self.wake()

    def remind(self) -> None:
        """Makes ``next`` return an empty sequence, unless an event arrives first."""
        self._is_reminded = True
        self.wake()

    def wake(self) -> None:
        """Wakes the reader if it's waiting in ``next``."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self, most: int = MAX_EVENTS) -> Sequence[T]:
        """Returns the next events, or an empty sequence after ``remind``.

        Raises the problem that disconnected the reader.
        """
        while True:
            if self._problem is not None:
                raise self._problem
            if self._unread and self._may_take():
                return [self._unread.popleft() for _ in range(min(len(self._unread), most))]
            if self._is_reminded and not self._unread:
                self._is_reminded = False
                return ()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    async def wait(self, seconds: float, most: int = MAX_EVENTS) -> Sequence[T]:
        """Returns the next events, or an empty sequence if none arrive within ``seconds``."""
        try:
            async with asyncio.timeout(seconds):
                return await self.next(most)
        except TimeoutError:
            return ()

    @property
    def kept_waiting(self) -> int:
        """Returns the number of unread events if the reader is waiting in ``next``, or 0."""
        return 0 if self._waiter is None else len(self._unread)

    def _may_take(self) -> bool:
        return True


class ReplyState(Enum):
    """A command's progress, as known to its waiter."""

    WAITING = "waiting"
    """No event has arrived. The service may not have received the command."""
    ACCEPTED = "accepted"
    """The service has accepted the command and will publish its outcome."""
    ANSWERED = "answered"
    """The command has ended."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """A service's answer to the lookup of a command. ``outcome`` is set if the command has ended."""

    state: ReplyState
    outcome: Received | None = None


AskOwner = Callable[[str, str, Identity], Awaitable[LookUp]]
"""Asks a service about a command. Called with ``(service, command_id, identity)``. Raises ``ServiceUnavailable``."""


class Replies:
    """The events of a command, as one waiter receives them.

    If ``is_repeat`` is true, the service received the command before this waiter subscribed, so earlier events may be
    missing.
    """

    def __init__(
        self,
        command: type[Command],
        command_id: str,
        identity: Identity,
        ask: AskOwner,
        payloads: PayloadReader,
        on_overflow: Callable[[], None] = lambda: None,
    ) -> None:
        self.state = ReplyState.WAITING
        self.is_repeat = False
        self.command_id = command_id
        self.identity = identity
        self._owner = command.TYPE.split(".")[1]
        self._outcomes = command.outcome_types()
        self._ask = ask
        self._payloads = payloads
        self._arrived = EventQueue[Received](on_overflow)
        self._silence = _SILENCE_SECONDS

    def ends(self, received: Received) -> bool:
        """Returns whether the event is the command's terminal event."""
        return received.envelope.type in self._outcomes

    def arrive(self, received: Received) -> None:
        """Queues an event for ``next``. If too many events are unread, disconnects the waiter."""
        self._advance(ReplyState.ANSWERED if self.ends(received) else ReplyState.ACCEPTED)
        self._arrived.offer((received,))
        self._arrived.wake()

    async def look_up(self) -> Received | None:
        """Asks the service about the command, before the command is sent again.

        Returns the outcome if the command has ended. If the service doesn't respond, the state doesn't change.
        """
        outcome = await self._look_up(_LOOK_UP_SECONDS)
        self.is_repeat = self.state is not ReplyState.WAITING
        return outcome

    async def next(self, timeout: float) -> Received | None:
        """Returns the command's next event, or None after ``timeout`` seconds. Raises ``ReadTooSlowly``.

        If no event arrives for a while, asks the service, so that lost events are found.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            left = deadline - loop.time()
            received = await self.wait(min(self._silence, left)) if left > 0 else None
            if received is None:
                # The service is asked even after the timeout, since a 504 for an ended command would be wrong.
                received = await self._look_up(min(_SILENCE_SECONDS, max(left, 0.5)))
                # The intervals grow, since many callers may wait for a long turn.
                self._silence = min(self._silence * 2, _LONGEST_SILENCE_SECONDS)
            if received is not None:
                return received
            if loop.time() >= deadline:
                return None

    async def outcome(self, timeout: float) -> Received | None:
        """Returns the command's terminal event, or None after ``timeout`` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while (received := await self.next(deadline - loop.time())) is not None and not self.ends(received):
            pass
        return received

    async def wait(self, timeout: float) -> Received | None:
        """Like ``next``, but never asks the service."""
        arrived = await self._arrived.wait(timeout, most=1)
        if not arrived:
            return None
        received = arrived[0]
        if received.envelope.data_ref is None:
            return received
        try:
            return Received(received.envelope, await self._payloads.read(received.envelope, received.payload))
        except (ServiceUnavailable, PayloadCorrupt) as problem:
            # If this was the outcome, a lookup returns it with its payload.
            _log.warning("event.payload_missing", event_id=received.envelope.id, problem=repr(problem))
            return None

    async def _look_up(self, timeout: float) -> Received | None:
        try:
            async with asyncio.timeout(timeout):
                found = await self._ask(self._owner, self.command_id, self.identity)
        except (TimeoutError, ServiceUnavailable) as problem:
            _log.info("command.lookup_failed", command_id=self.command_id, problem=repr(problem))
            return None
        self._advance(found.state)
        return found.outcome

    def _advance(self, state: ReplyState) -> None:
        """Advances the state but never reverts it, since events and lookups may arrive out of order."""
        if state is ReplyState.ANSWERED or self.state is ReplyState.WAITING:
            self.state = state


class CommandSender:
    """Sends commands and routes the resulting events to the waiters, which receive only their own company's events."""

    def __init__(
        self,
        bus: Bus,
        producer: Producer,
        signer: IdentitySigner,
        ask: AskOwner,
        payloads: PayloadReader,
        *,
        source: str,
        topics: Sequence[Topic] = TOPICS,
        on_overflow: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_overflow`` is called for each waiter that is disconnected because it reads too slowly."""
        self._producer = producer
        self._signer = signer
        self._ask = ask
        self._payloads = payloads
        self._source = source
        self._on_overflow = on_overflow
        self._waiters: defaultdict[str, set[Replies]] = defaultdict(set)
        self._callbacks: defaultdict[str, list[OnEvent]] = defaultdict(list)
        self._every: dict[TopicKind, list[OnEvent]] = {TopicKind.EVENTS: [], TopicKind.DELTAS: []}
        self._kinds = {topic.name: topic.kind for topic in topics}
        self.readers = [TailReader(bus, names, self._on_record) for names in _reading(topics)]

    def fresh(self) -> bool:
        """Returns whether all readers are fresh, so that no recent event is missing."""
        return all(reader.fresh for reader in self.readers)

    def started(self) -> bool:
        """Returns whether every reader has caught up. Before that, only lookups find the outcomes of commands."""
        return all(reader.caught_up.is_set() for reader in self.readers)

    def on_event(self, event_type: str, callback: OnEvent) -> None:
        """Registers a callback for all companies' events of one type."""
        self._callbacks[event_type].append(callback)

    def on_every_event(self, callback: OnEvent, *, kind: TopicKind = TopicKind.EVENTS) -> None:
        """Registers a callback for all companies' events, from the events topics or the deltas topic."""
        self._every[kind].append(callback)

    @asynccontextmanager
    async def replies(self, command_id: str, command: type[Command], identity: Identity) -> AsyncIterator[Replies]:
        """Subscribes to a command's events. Enter this context before sending the command."""
        replies = Replies(command, command_id, identity, self._ask, self._payloads, self._on_overflow)
        waiters = self._waiters[command_id]
        waiters.add(replies)
        try:
            yield replies
        finally:
            waiters.discard(replies)
            if not waiters:
                self._waiters.pop(command_id, None)

    async def send(
        self,
        command: Command,
        *,
        subject: str,
        command_id: str,
        correlation_id: str,
        identity: Identity,
        expires_in: float,
        traceparent: str | None = None,
    ) -> None:
        """Sends a command, which the service rejects if it arrives more than ``expires_in`` seconds later.

        Raises ``ServiceUnavailable`` if the broker doesn't respond within 4 s. The command may still be executed.
        """
        if not self._producer.healthy:
            raise ServiceUnavailable("The message bus is unavailable. Nothing was changed.", retry_after=2)
        now = datetime.now(UTC)
        envelope = Envelope(
            id=command_id,
            type=command.TYPE,
            source=self._source,
            subject=subject,
            time=format_time(now),
            correlation_id=correlation_id,
            company_id=identity.company_id,
            expires_at=format_time(now + timedelta(seconds=expires_in)),
            traceparent=current_traceparent() or traceparent,
        )
        payload = command.encode()
        envelope = self._signer.sign_command(envelope, identity, payload)
        with send_span(command.TOPIC.name, envelope):
            await self._produce(command.TOPIC, with_current_span(envelope), payload)

    async def _produce(self, topic: Topic, envelope: Envelope, payload: bytes) -> None:
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await (await self._producer.send(topic.name, envelope.correlation_id, payload, envelope.headers()))
        except (TimeoutError, BusUnavailable) as problem:
            raise ServiceUnavailable(
                "The message bus didn't respond in time. The request may still be executed.", retry_after=2
            ) from problem
        except MessageRefused as problem:
            # The broker's reason is only for operators.
            _log.error("command.rejected_by_broker", topic=topic.name, problem=str(problem))
            raise ServiceUnavailable(
                "The message bus rejected the request. Give the correlation ID to the operator."
            ) from problem

    def _on_record(self, record: Record) -> None:
        try:
            envelope = envelope_from(record.headers)
        except PoisonMessage as problem:
            _log.warning("event.malformed", topic=record.topic, offset=record.offset, problem=str(problem))
            return
        self._notify_waiters(envelope, record.value)
        for callback in (*self._every[self._kinds[record.topic]], *self._callbacks.get(envelope.type, ())):
            try:
                callback(envelope, record.value)
            except Exception:
                # If the reader ended here, waiters would miss events.
                _log.exception("event.callback_failed", type=envelope.type, event_id=envelope.id)

    def _notify_waiters(self, envelope: Envelope, payload: bytes) -> None:
        for waiter in self._waiters.get(envelope.causation_id or "", ()):
            # Command IDs aren't secret. A guessed ID must not reveal another company's events.
            if waiter.identity.company_id == envelope.company_id:
                waiter.arrive(Received(envelope, payload))


def _reading(topics: Sequence[Topic]) -> list[list[str]]:
    """Groups the topics by reader. Fetching many partitions takes longer, so each busy topic has its own reader."""
    read = [topic for topic in topics if topic.kind in (TopicKind.EVENTS, TopicKind.DELTAS)]
    busy = [[topic.name] for topic in read if topic in (RUNTIME_EVENTS, RUNTIME_DELTAS)]
    quiet = [topic.name for topic in read if [topic.name] not in busy]
    return [*busy, quiet] if quiet else busy
