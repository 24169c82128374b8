"""Publishes the messages in the outbox after their transaction has committed."""

import asyncio
from asyncio import Future
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import structlog
from pydantic import ValidationError

from libs.contracts.errors import ErrorInfo, ErrorKind
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandRejected, Envelope, command_models
from libs.contracts.timestamps import format_time
from libs.eventing import _metrics as metrics
from libs.eventing._identity_tokens import IdentitySigner
from libs.eventing.bus import BusUnavailable, MessageRefused, Producer, problem_of
from libs.eventing.messages import (
    COMMAND_LIFETIME,
    OUTBOX_COLUMNS,
    OutboxMessage,
    is_terminal,
    read_messages,
    referring_if_large,
    send_span,
    with_current_span,
)
from libs.persistence import Database, TaskLease, is_outage

_log = structlog.get_logger("eventing.outbox")
# Marking many rows costs hardly more than marking one. A lost mark only causes a second delivery.
_MARK_SECONDS: Final = 0.1
_RETRY_SECONDS: Final = 1.0
_REST_SECONDS: Final = 2.0
# The process that stored a younger row is probably still publishing it.
_SWEEP_AGE_SECONDS: Final = 2.0
# Must be longer than sending a page takes, so that no other process sends it again.
_LEASE_SECONDS: Final = 10.0
_ACKNOWLEDGE_SECONDS: Final = 5.0
# Must be longer than two sweep intervals, so that a sweep in between serves all other topics.
_TOPIC_REST_SECONDS: Final = 3.0
_DRAIN_SECONDS: Final = 2.0
_ROWS: Final = 500
_SUBJECTS: Final = 10_000
_PARK_AFTER: Final = 10

_WAITING: Final = "published_at IS NULL AND parked_at IS NULL"
# Each page starts at the first row, since a transaction may commit rows that precede the last page. A row waits for
# earlier rows of its subject on excluded topics.
_PAGE: Final = f"""
    SELECT {OUTBOX_COLUMNS} FROM outbox o
    WHERE {_WAITING} AND {{which}} AND subject <> ALL(%(held)s) AND NOT EXISTS (
        SELECT FROM outbox e WHERE e.subject = o.subject AND e.id <= o.id AND e.topic = ANY(%(topics)s)
          AND e.published_at IS NULL AND e.parked_at IS NULL)
    ORDER BY id LIMIT %(rows)s
"""
_OF_SUBJECTS: Final = _PAGE.format(which="subject = ANY(%(subjects)s)")
_OLD: Final = _PAGE.format(which="created_at < now() - make_interval(secs => %(seconds)s)")
_BEFORE: Final = f"""
    SELECT {OUTBOX_COLUMNS} FROM outbox WHERE {_WAITING} AND subject = %s AND id < %s ORDER BY id
"""
_LEFT: Final = f"SELECT DISTINCT subject FROM outbox WHERE {_WAITING} AND subject = ANY(%s)"
_BACKLOG: Final = f"""
    SELECT count(*), coalesce(extract(epoch FROM now() - min(created_at)), 0)::float FROM outbox WHERE {_WAITING}
"""
_MARK: Final = "UPDATE outbox SET published_at = now() WHERE id = ANY(%s) AND published_at IS NULL"
_REFUSED: Final = """
    UPDATE outbox SET attempts = attempts + 1, last_error = %s WHERE id = %s AND parked_at IS NULL RETURNING attempts
"""
# The substitute event takes over the sequence number. The parked message gets a negative one, which can't collide with
# the subject's other numbers.
_PARK: Final = """
    UPDATE outbox SET parked_at = now(), terminal = false, sequence = -id WHERE id = %(id)s AND parked_at IS NULL
"""
_SUBSTITUTE: Final = f"""
    WITH parked AS ({_PARK} RETURNING *)
    INSERT INTO outbox (event_id, type, topic, subject, sequence, company_id, correlation_id, causation_id,
                        traceparent, owner_id, terminal, payload, cause)
    SELECT %(event_id)s, %(type)s, topic, subject, %(sequence)s, company_id, correlation_id, causation_id,
           traceparent, owner_id, true, %(payload)s, %(cause)s
    FROM parked
"""


@dataclass(slots=True)
class _Held:
    """The subjects and topics that the rest of a pass skips."""

    subjects: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)


class Relay:
    """Publishes stored messages at least once, in order per subject, and with a stable ID.

    A committed message is sent directly if it has number 1, or if this process has sent the subject's previous number.
    If that isn't the case, or if sending fails, the subject is *behind*: ``catch_up`` reads the subject's unpublished
    messages and sends them one at a time. The process with the lease also publishes all messages that have been
    unpublished for over two seconds.

    Two processes may send the same message. Since both send in order, a subject's messages first arrive in order.
    Readers drop duplicates by ID and number.

    Commands are signed only when they're sent, so that databases and backups contain no signatures.

    ``waiting`` is the number of unpublished messages, and ``oldest`` the age of the oldest in seconds.
    """

    # Buffering reduces the number of requests. Each request makes the pending fetch of every reader return.
    LINGER_SECONDS: Final = 0.01

    def __init__(self, database: Database, producer: Producer, signer: IdentitySigner, *, source: str) -> None:
        self.waiting = 0
        self.oldest = 0.0
        self._database = database
        self._producer = producer
        self._signer = signer
        self._source = source
        service = source.rsplit("/", 1)[-1]
        self._parked, self._swept = metrics.PARKED.labels(service), metrics.SWEPT.labels(service)
        self._lease = TaskLease(database, "outbox", _LEASE_SECONDS)
        self._queue: deque[OutboxMessage] = deque()
        self._send_queue = asyncio.Event()
        self._lingering: asyncio.TimerHandle | None = None
        self._in_flight: dict[int, Future[None]] = {}
        self._acknowledged: set[int] = set()
        # The newest number that was sent or queued, by subject, and the newest number of subjects that are behind.
        self._last: OrderedDict[str, int] = OrderedDict()
        self._behind: dict[str, int] = {}
        # Subjects that are behind without a failed send.
        self._due: set[str] = set()
        # The time until which a topic isn't tried again after an outage.
        self._rest: dict[str, float] = {}
        self._wake = asyncio.Event()

    @property
    def behind(self) -> Collection[str]:
        """Returns the subjects with messages that wait for earlier messages."""
        return self._behind.keys()

    def publish(self, messages: Iterable[OutboxMessage]) -> None:
        """Queues the messages of a committed transaction, without waiting.

        A command's outcome is sent immediately, since a caller may be waiting for it. Other messages are buffered.
        """
        outcome = False
        for message in messages:
            subject, number = message.subject, message.sequence
            outcome = outcome or is_terminal(message.type)
            if subject not in self._behind and number in (1, self._last.get(subject, 0) + 1):
                self._remember(subject, number)
                self._queue.append(message)
                continue
            if subject not in self._behind:
                self._due.add(subject)
                self._wake.set()
            self._fall_behind(message)
        if outcome:
            self.send_now()
        elif self._queue and self._lingering is None:
            self._lingering = asyncio.get_running_loop().call_later(self.LINGER_SECONDS, self._send_queue.set)

    def send_now(self) -> None:
        """Sends buffered messages now."""
        if self._queue:
            self._send_queue.set()

    async def run(self) -> None:
        """Publishes messages until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._send_queued(), name="outbox.send")
            tasks.create_task(self._keep_up(), name="outbox.catch_up")

    async def _send_queued(self) -> None:
        while True:
            await self._send_queue.wait()
            self._send_queue.clear()
            if self._lingering is not None:
                self._lingering.cancel()
                self._lingering = None
            while self._queue:
                message = self._queue.popleft()
                if message.subject not in self._behind:
                    await self._send_directly(message)

    async def _send_directly(self, message: OutboxMessage) -> None:
        try:
            if not self._producer.healthy:
                raise BusUnavailable("the broker doesn't respond")
            acknowledged = await self._send(message)
        except (BusUnavailable, MessageRefused) as problem:
            _log.warning("message.send_failed", **message.log_ids(), problem=str(problem))
            self._fall_behind(message)
        except BaseException:
            # The task was cancelled between the queue and the broker. No other part of this process has the message.
            self._fall_behind(message)
            raise
        else:
            acknowledged.add_done_callback(lambda done: self._fall_behind(message) if _has_failed(done) else None)

    async def _keep_up(self) -> None:
        loop = asyncio.get_running_loop()
        next_check = loop.time() + _RETRY_SECONDS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_check):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._mark()
                await self.catch_up(list(self._due))
                if loop.time() >= next_check:
                    next_check = loop.time() + _RETRY_SECONDS
                    await self.catch_up(list(self._behind))
                    await self.sweep()
                    next_check = loop.time() + (_RETRY_SECONDS if self.waiting or self._behind else _REST_SECONDS)
            except Exception as problem:
                if not is_outage(problem):
                    _log.exception("outbox.relay_failed")

    async def catch_up(self, subjects: Collection[str]) -> None:
        """Sends the subjects' unpublished messages. A subject without unpublished messages is no longer behind."""
        before = {subject: self._behind[subject] for subject in subjects}
        self._due.difference_update(before)
        held, is_last = _Held(topics=self._resting()), not before
        while not is_last and self._producer.healthy:
            _, is_last = await self._send_page(_OF_SUBJECTS, {"subjects": list(before)}, held)
        if not is_last:
            return
        if held.topics:
            held.subjects.update(row[0] for row in await self._database.execute(_LEFT, (list(before),)))
        for subject in before.keys() - held.subjects:
            if self._behind[subject] == before[subject]:
                self._remember(subject, self._behind.pop(subject))
            else:
                self._due.add(subject)
                self._wake.set()

    async def sweep(self) -> int:
        """If this process gets the lease, publishes messages that other processes left behind. Returns their number."""
        ((self.waiting, self.oldest),) = await self._database.execute(_BACKLOG)
        if self.oldest < _SWEEP_AGE_SECONDS:
            return 0
        held, done, is_last = _Held(set(self._behind), self._resting()), 0, False
        while not is_last and self._producer.healthy and await self._lease.take():
            sent, is_last = await self._send_page(_OLD, {"seconds": _SWEEP_AGE_SECONDS}, held)
            done += sent
        await self._lease.release()
        if done:
            self._swept.inc(done)
            _log.info("outbox.swept", rows=done)
            ((self.waiting, self.oldest),) = await self._database.execute(_BACKLOG)
        return done

    def _resting(self) -> set[str]:
        """Returns the topics to which sending recently failed. Messages for all other topics are sent first."""
        now = asyncio.get_running_loop().time()
        self._rest = {topic: until for topic, until in self._rest.items() if until > now}
        return set(self._rest)

    async def _send_page(self, query: str, parameters: dict[str, Any], held: _Held) -> tuple[int, bool]:
        """Sends a page of rows. Returns the number acknowledged, and whether the page was the last one."""
        held_now = {"held": list(held.subjects), "topics": list(held.topics), "rows": _ROWS}
        page = await read_messages(self._database, query, {**parameters, **held_now})
        return await self._send_in_order(page, held), len(page) < _ROWS

    async def _send_in_order(self, rows: Sequence[OutboxMessage], held: _Held) -> int:
        """Sends rows, one per subject at a time, and marks them as published. Returns the number acknowledged."""
        sent: dict[str, tuple[OutboxMessage, Future[None]]] = {}
        done = 0
        for row in rows:
            if row.subject in sent:
                done += await self._settle([sent.pop(row.subject)], held)
            if row.id in self._acknowledged:
                continue
            if row.topic in held.topics or not self._producer.healthy:
                held.subjects.add(row.subject)
            if row.subject in held.subjects:
                continue
            try:
                sent[row.subject] = row, self._in_flight.get(row.id) or await self._send(row)
            except (BusUnavailable, MessageRefused) as problem:
                await self._hold(row, problem, held)
        done += await self._settle(sent.values(), held)
        await self._mark()
        return done

    async def _settle(self, sent: Collection[tuple[OutboxMessage, "Future[None]"]], held: _Held) -> int:
        """Waits for acknowledgements, and holds the subjects of failed messages. Returns the number acknowledged."""
        if not sent:
            return 0
        await asyncio.wait([acknowledged for _, acknowledged in sent], timeout=_ACKNOWLEDGE_SECONDS)
        failed = [(message, problem) for message, done in sent if (problem := problem_of(done)) is not None]
        for message, problem in failed:
            await self._hold(message, problem, held)
        return len(sent) - len(failed)

    async def _hold(self, message: OutboxMessage, problem: Exception, held: _Held) -> None:
        held.subjects.add(message.subject)
        if isinstance(problem, MessageRefused):
            await self._count_refusal(message, str(problem))
        else:
            held.topics.add(message.topic)
            self._rest[message.topic] = asyncio.get_running_loop().time() + _TOPIC_REST_SECONDS

    async def republish(self, message: OutboxMessage) -> None:
        """Publishes a stored message again, after the subject's unpublished earlier messages.

        Raises ``BusUnavailable``.
        """
        for each in [*await read_messages(self._database, _BEFORE, (message.subject, message.id)), message]:
            # This includes messages in flight, since the caller may have missed them.
            acknowledged = await self._send(each)
            await asyncio.wait((acknowledged,), timeout=_ACKNOWLEDGE_SECONDS)
            if problem := problem_of(acknowledged):
                raise problem

    async def drain(self) -> None:
        """Waits up to 2 s for the broker to acknowledge committed messages, then marks them as published."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _DRAIN_SECONDS
        self._send_queue.set()
        while (self._queue or self._in_flight or self._due) and loop.time() < deadline:
            await asyncio.sleep(0.01)
        await self._mark()

    async def _send(self, message: OutboxMessage) -> "Future[None]":
        """Sends a message, and returns a future that resolves once the broker has acknowledged the message.

        Raises ``BusUnavailable`` and ``MessageRefused``.
        """
        envelope, value = self._enveloped(message)
        with send_span(message.topic, envelope):
            headers = with_current_span(envelope).headers()
            acknowledged = await self._producer.send(message.topic, message.correlation_id, value, headers)
        self._in_flight[message.id] = acknowledged
        acknowledged.add_done_callback(partial(self._arrived, message))
        return acknowledged

    def _arrived(self, message: OutboxMessage, acknowledged: "Future[None]") -> None:
        if self._in_flight.get(message.id) is acknowledged:
            del self._in_flight[message.id]
        if _has_failed(acknowledged):
            return
        if not self._acknowledged:
            asyncio.get_running_loop().call_later(_MARK_SECONDS, self._wake.set)
        self._acknowledged.add(message.id)

    def _enveloped(self, message: OutboxMessage) -> tuple[Envelope, bytes]:
        envelope = message.envelope(self._source)
        if message.identity is None:
            return referring_if_large(envelope, message.payload)
        command = replace(envelope, sequence=0, expires_at=format_time(message.created_at + COMMAND_LIFETIME))
        try:
            identity = Identity.model_validate(message.identity)
        except ValidationError as problem:
            raise MessageRefused(f"the command's identity is invalid (errors: {problem.error_count()})") from problem
        return self._signer.sign_command(command, identity, message.payload), message.payload

    def _fall_behind(self, message: OutboxMessage) -> None:
        subject = message.subject
        self._behind[subject] = max(self._behind.get(subject, 0), self._last.get(subject, 0), message.sequence)

    def _remember(self, subject: str, number: int) -> None:
        self._last[subject] = number
        self._last.move_to_end(subject)
        if len(self._last) > _SUBJECTS:
            self._last.popitem(last=False)

    async def _mark(self) -> None:
        """Marks acknowledged messages as published. If an outage prevents that, the messages are sent again."""
        while batch := sorted(self._acknowledged)[:_ROWS]:
            try:
                await self._database.execute(_MARK, (batch,))
            except Exception as problem:
                if not is_outage(problem):
                    raise
                _log.warning("outbox.not_marked", rows=len(self._acknowledged), problem=str(problem))
                return
            self._acknowledged.difference_update(batch)

    async def _count_refusal(self, message: OutboxMessage, reason: str) -> None:
        """Parks a message that the broker has rejected ten times. A rejection event replaces a command's outcome."""
        attempts = await self._database.value(_REFUSED, (reason[:2000], message.id))
        if attempts is None or attempts < _PARK_AFTER:
            return
        if message.causation_id is None or not is_terminal(message.type):
            await self._database.execute(_PARK, {"id": message.id})
        else:
            command = next(model for model in command_models().values() if message.type in model.outcome_types())
            error = ErrorInfo(type=ErrorKind.INTERNAL, message=f"The outcome couldn't be published: {reason}.")
            substitute = {
                "id": message.id,
                "event_id": new_id(),
                "type": command.rejected_type(),
                "sequence": message.sequence,
                "payload": CommandRejected(error=error).encode(),
                "cause": "MessageRefused by the broker",
            }
            await self._database.execute(_SUBSTITUTE, substitute)
        self._parked.inc()
        _log.error("outbox.parked", **message.log_ids(), type=message.type, reason=reason)


def _has_failed(acknowledged: "Future[None]") -> bool:
    return acknowledged.cancelled() or acknowledged.exception() is not None
