"""Request and reply over the bus: sends commands and waits for the events that they cause."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

import structlog

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.messages import Command, Envelope, MalformedEnvelope, Received, envelope_from
from libs.contracts.timestamps import format_time
from libs.contracts.topics import RUNTIME_DELTAS, RUNTIME_EVENTS, TOPICS, Topic, TopicKind
from libs.eventing._identity_tokens import IdentitySigner
from libs.eventing.bus import Bus, BusUnavailable, MessageRefused, Partition, Producer, Record, Tail
from libs.eventing.event_queue import EventQueue
from libs.eventing.messages import OnEvent, PayloadCorrupt, PayloadReader, send_span, with_current_span
from libs.retry import RetryPolicy
from libs.tracing import current_traceparent

_POLL_SECONDS: Final = 10.0
_CATCH_UP_SECONDS: Final = 0.5
_FRESH_SECONDS: Final = 10.0
_RECONNECT: Final = RetryPolicy(first=0.5, longest=0.5)
_log = structlog.get_logger("eventing.request_reply")
# The gateway answers 503 within five seconds.
_SEND_SECONDS: Final = 4.0
_SILENCE_SECONDS: Final = 2.0
_LONGEST_SILENCE_SECONDS: Final = 15.0
_LOOK_UP_SECONDS: Final = 5.0


class TailReader:
    """Gives every record of some topics to a callback, once and without a gap, through outages of the broker.

    Reading begins at the end; with ``from_start`` at the first record that the topics still keep. ``caught_up`` is set
    when all that was there at the start has been given, and stays set.
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
        """Whether the broker answered within the last seconds, so that nothing important is missed."""
        if self._tail is None:
            return False
        now = asyncio.get_running_loop().time()
        # Asked for with each request, and to look at every partition takes a while.
        if now >= self._fresh_until:
            self._fresh_until = self._tail.answered() + _FRESH_SECONDS
        return now < self._fresh_until

    async def run(self) -> None:
        """Read until cancelled; waits for an unreachable broker."""
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


class ReplyState(Enum):
    """The progress of a command, as its waiter knows it."""

    WAITING = "waiting"
    """Nothing was heard of it; its owner may not have it."""
    ACCEPTED = "accepted"
    """Its owner has it and will end it."""
    ANSWERED = "answered"
    """It has ended."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """An owner's answer about a command, with the outcome of one that has ended."""

    state: ReplyState
    outcome: Received | None = None


AskOwner = Callable[[str, str, Identity], Awaitable[LookUp]]
"""Asks an owner about a command: ``(owner, command_id, identity)``. Raises ``ServiceUnavailable``."""


class Replies:
    """The events of one command for one waiter, as they arrive.

    ``is_repeat``: the command's owner had it before this waiter came, who may have missed events.
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
        """Whether this is the command's terminal event."""
        return received.envelope.type in self._outcomes

    def arrive(self, received: Received) -> None:
        """Keeps an event for ``next``. A waiter that leaves too many unread gets none any more."""
        self._advance(ReplyState.ANSWERED if self.ends(received) else ReplyState.ACCEPTED)
        self._arrived.offer((received,))
        self._arrived.wake()

    async def look_up(self) -> Received | None:
        """Asks the owner, before the command is sent again: the outcome, if it has ended.

        An owner that does not answer leaves the state as it is: sending twice is safe, since a command takes effect
        once.
        """
        outcome = await self._look_up(_LOOK_UP_SECONDS)
        self.is_repeat = self.state is not ReplyState.WAITING
        return outcome

    async def next(self, timeout: float) -> Received | None:
        """The next event caused by the command, or None within ``timeout`` seconds.

        After a silence the owner's look-up is asked, so that an event lost on the way is found. Raises
        ``ReadTooSlowly`` when 2,000 events were left unread and the next one was dropped.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            left = deadline - loop.time()
            received = await self.wait(min(self._silence, left)) if left > 0 else None
            if received is None:
                # Also when the time is over: a 504 for a command that has ended would be wrong.
                received = await self._look_up(min(_SILENCE_SECONDS, max(left, 0.5)))
                # Many may wait for a long turn: they ask less and less often.
                self._silence = min(self._silence * 2, _LONGEST_SILENCE_SECONDS)
            if received is not None:
                return received
            if loop.time() >= deadline:
                return None

    async def outcome(self, timeout: float) -> Received | None:
        """The terminal event, or None within ``timeout`` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while (received := await self.next(deadline - loop.time())) is not None and not self.ends(received):
            pass
        return received

    async def wait(self, timeout: float) -> Received | None:
        """The next event that arrives within ``timeout`` seconds; the owner is not asked. Raises as ``next`` does."""
        arrived = await self._arrived.wait(timeout, most=1)
        if not arrived:
            return None
        received = arrived[0]
        if received.envelope.data_ref is None:
            return received
        try:
            return Received(received.envelope, await self._payloads.read(received.envelope, received.payload))
        except (ServiceUnavailable, PayloadCorrupt) as problem:
            # The look-up brings an outcome with its payload; other events are not worth failing for.
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
        """Takes note of an event or an answer, which may be older than the one before."""
        if state is ReplyState.ANSWERED or self.state is ReplyState.WAITING:
            self.state = state


class CommandSender:
    """Sends commands and gives the events that they cause to their waiters.

    Every replica reads all events; waiters of a command are a set, filtered by company.
    """

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
        """``on_overflow`` is called for each waiter that is ended because it left too much unread."""
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
        """Whether the broker answered all readers within the last seconds, so that no event was missed."""
        return all(reader.fresh for reader in self.readers)

    def started(self) -> bool:
        """Whether every reader has begun: the answer of a command that is sent before is found by the look-up alone."""
        return all(reader.caught_up.is_set() for reader in self.readers)

    def on_event(self, event_type: str, callback: OnEvent) -> None:
        """Call back for every event of a type, of any company."""
        self._callbacks[event_type].append(callback)

    def on_every_event(self, callback: OnEvent, *, kind: TopicKind = TopicKind.EVENTS) -> None:
        """Call back for every event of the events topics, or of the deltas, of any company."""
        self._every[kind].append(callback)

    @asynccontextmanager
    async def replies(self, command_id: str, command: type[Command], identity: Identity) -> AsyncIterator[Replies]:
        """Listen for the events of a command; entered before the command is sent."""
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
        """Send a command; ``expires_in`` seconds later its owner refuses it.

        Raises ``ServiceUnavailable`` within 4 s when the broker does not take it; it may still be carried out.
        """
        if not self._producer.healthy:
            raise ServiceUnavailable("The message bus cannot be reached; nothing was done.", retry_after=2)
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
                "The message bus did not confirm in time; the request may still be carried out.", retry_after=2
            ) from problem
        except MessageRefused as problem:
            # The broker's words are for operators.
            _log.error("command.refused_by_broker", topic=topic.name, problem=str(problem))
            raise ServiceUnavailable("The message bus refused the request.") from problem

    def _on_record(self, record: Record) -> None:
        try:
            envelope = envelope_from(record.headers)
        except MalformedEnvelope as problem:
            _log.warning("event.malformed", topic=record.topic, offset=record.offset, problem=str(problem))
            return
        self._tell_waiters(envelope, record.value)
        for callback in (*self._every[self._kinds[record.topic]], *self._callbacks.get(envelope.type, ())):
            try:
                callback(envelope, record.value)
            except Exception:
                # Ending the reader would make all other waiters miss events.
                _log.exception("event.callback_failed", type=envelope.type, event_id=envelope.id)

    def _tell_waiters(self, envelope: Envelope, payload: bytes) -> None:
        for waiter in self._waiters.get(envelope.causation_id or "", ()):
            # Command ids aren't secret: guessing one must not reveal another company's events.
            if waiter.identity.company_id == envelope.company_id:
                waiter.arrive(Received(envelope, payload))


def _reading(topics: Sequence[Topic]) -> list[list[str]]:
    """Topics by reader. A fetch costs by the partitions that it names, so busy topics have readers of their own."""
    read = [topic for topic in topics if topic.kind in (TopicKind.EVENTS, TopicKind.DELTAS)]
    busy = [[topic.name] for topic in read if topic in (RUNTIME_EVENTS, RUNTIME_DELTAS)]
    quiet = [topic.name for topic in read if [topic.name] not in busy]
    return [*busy, quiet] if quiet else busy
