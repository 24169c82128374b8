"""Publishes recorded events: at once after their commit, and by a sweeper what that could not."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

import structlog

from libs.eventing import _metrics as metrics
from libs.eventing import _outbox_table as table
from libs.eventing._bus import BusUnavailable, MessageRefused, Producer, problem_of
from libs.eventing._message_spans import carrying, sending
from libs.eventing._messages import is_terminal
from libs.eventing._outbox_table import RecordedEvent
from libs.eventing._payloads import referring_if_large
from libs.eventing._substitute_events import substitute_for
from libs.persistence import Connection, Database, is_outage

_log = structlog.get_logger("eventing.outbox")
_LINGER_SECONDS: Final = 0.01
# Marks cost an UPDATE each; in bulk they cost next to nothing, and one that is lost only means a second delivery.
_FLUSH_SECONDS: Final = 0.1
_FLUSH_ROWS: Final = 500
_ACKNOWLEDGE_SECONDS: Final = 5.0
_DRAIN_SECONDS: Final = 2.0
_SWEEP_SECONDS: Final = 1.0
_RELEASE_SECONDS: Final = 1.0
# Younger rows are most likely just being published by the process that wrote them.
_SWEEP_AGE_SECONDS: Final = 2.0
_SWEEP_ROWS: Final = 500
_PARK_AFTER: Final = 10
# Longer than commands are kept on the bus: a redelivery must find what became of the first delivery.
_KEEP_DAYS: Final = 8
_FORGET_SECONDS: Final = 600.0
_SWEEP_LOCK: Final = 7_110_023


class Publisher:
    """Sends a service's events in order per subject and marks them as sent.

    Directly after the commit while all goes well. A subject whose event could not be sent is *held*: all that
    follows of it is left to the sweeper, which goes by row order, until nothing of it waits any more.

    ``waiting`` counts the events not sent yet when the sweeper last looked, the ``oldest`` of them since so many
    seconds.
    """

    def __init__(self, database: Database, producer: Producer, *, source: str) -> None:
        self._database = database
        self._producer = producer
        self._source = source
        self._queue: deque[RecordedEvent] = deque()
        self._wake = asyncio.Event()
        self._lingering: asyncio.TimerHandle | None = None
        self._sent: list[int] = []
        self._in_flight: set[int] = set()
        self._deferred: dict[str, int] = {}
        self._forgot_at = -_FORGET_SECONDS
        service = source.rsplit("/", 1)[-1]
        self._parked, self._swept = metrics.PARKED.labels(service), metrics.SWEPT.labels(service)
        self.waiting = 0
        self.oldest = 0.0

    def publish(self, events: Iterable[RecordedEvent]) -> None:
        """Queue events whose transaction has been committed.

        An outcome, which somebody waits for, goes at once and takes along what is queued before it. Other events
        wait a moment, so that a short turn's beginning and end travel in one request.
        """
        arrived = list(events)
        self._queue.extend(arrived)
        if any(is_terminal(event.type) for event in arrived):
            self._wake.set()
        elif arrived and self._lingering is None:
            self._lingering = asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._wake.set)

    def defer(self, subjects: Iterable[str]) -> None:
        """Hold back what follows of these subjects: nobody knows whether their last events were committed."""
        for subject in subjects:
            self._defer(subject)

    @property
    def deferred(self) -> int:
        """How many subjects wait for the sweeper."""
        return len(self._deferred)

    async def run(self) -> None:
        """Send what is queued, in order, for as long as the process lives."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._lingering is not None:
                self._lingering.cancel()
                self._lingering = None
            while self._queue:
                await self._send_directly(self._queue.popleft())

    async def _send_directly(self, event: RecordedEvent) -> None:
        if event.subject in self._deferred or not self._producer.healthy:
            self._defer(event.subject)
            return
        try:
            acknowledged = await self._send(event)
        except (BusUnavailable, MessageRefused) as problem:
            _log.warning("event.deferred", **_ids(event), problem=str(problem))
            self._defer(event.subject)
            return
        except BaseException:
            # Cancelled between taking it from the queue and handing it over: nobody else remembers it.
            self._defer(event.subject)
            raise
        self._in_flight.add(event.id)
        acknowledged.add_done_callback(lambda done: self._acknowledged(event, done))

    def _acknowledged(self, event: RecordedEvent, done: "asyncio.Future[None]") -> None:
        self._in_flight.discard(event.id)
        if done.cancelled() or done.exception() is not None:
            self._defer(event.subject)
        else:
            self._sent.append(event.id)

    def _defer(self, subject: str) -> None:
        self._deferred[subject] = self._deferred.get(subject, 0) + 1

    async def _send(self, event: RecordedEvent) -> "asyncio.Future[None]":
        envelope, value = referring_if_large(event.envelope(self._source), event.payload)
        with sending(event.topic, envelope):
            headers = carrying(envelope).headers()
            return await self._producer.send(event.topic, event.correlation_id, value, headers)

    async def republish(self, event: RecordedEvent) -> None:
        """Send a recorded event once more, under its own id. Raises ``BusUnavailable``."""
        try:
            async with asyncio.timeout(_ACKNOWLEDGE_SECONDS):
                await (await self._send(event))
        except TimeoutError as problem:
            raise BusUnavailable("the broker did not confirm in time") from problem

    async def drain(self) -> None:
        """Wait shortly until what is queued has been acknowledged, and write that down."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _DRAIN_SECONDS
        self._wake.set()
        while (self._queue or self._in_flight) and loop.time() < deadline:
            await asyncio.sleep(0.01)
        await self.flush()

    async def run_marking(self) -> None:
        """Mark in bulk what the broker has acknowledged, and let go of subjects of which nothing waits any more."""
        loop = asyncio.get_running_loop()
        released_at = loop.time()
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            await self.flush()
            if self._deferred and loop.time() - released_at >= _RELEASE_SECONDS:
                released_at = loop.time()
                await self.release()

    async def flush(self) -> None:
        """Write down what was acknowledged; in an outage it stays for the next time."""
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

    async def run_sweeping(self) -> None:
        """Publish what was left behind; one process per database does it at a time."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            try:
                async with self._database.connection() as connection:
                    await self._sweep_while_leader(connection)
                    await self.measure(connection)
            except Exception as problem:
                if not (is_outage(problem) or isinstance(problem, BusUnavailable)):
                    _log.exception("outbox.sweep_failed")

    async def _sweep_while_leader(self, connection: Connection) -> None:
        row = await (await connection.execute("SELECT pg_try_advisory_lock(%s)", (_SWEEP_LOCK,))).fetchone()
        leader = bool(row and row[0])
        try:
            while leader and self._producer.healthy and await self.sweep(connection) == _SWEEP_ROWS:
                pass
            if leader:
                await self._forget(connection)
        finally:
            if leader:
                await connection.execute("SELECT pg_advisory_unlock(%s)", (_SWEEP_LOCK,))

    async def measure(self, connection: Connection) -> None:
        """Look how much waits, and for how long: an outbox that grows old is an alarm."""
        self.waiting, self.oldest = await table.waiting(connection)

    async def sweep(self, connection: Connection) -> int:
        """Publish one batch of what waits, in row order; how many rows were published.

        Of each subject one row at a time is under way: a later one must not overtake one that is refused.
        """
        rows = await table.unpublished(
            connection, older_than=_SWEEP_AGE_SECONDS, subjects=list(self._deferred), limit=_SWEEP_ROWS
        )
        done = 0
        sent: dict[str, tuple[RecordedEvent, asyncio.Future[None]]] = {}
        stuck = {row.subject for row in rows if row.id in self._in_flight}
        for row in rows:
            if row.subject in sent:
                done += await self._settle(connection, sent, stuck)
            if row.subject in stuck:
                continue
            try:
                sent[row.subject] = (row, await self._send(row))
            except MessageRefused as problem:
                stuck.add(row.subject)
                await self._count_failure(connection, row, str(problem))
            except BusUnavailable as problem:
                _log.warning("outbox.sweep_interrupted", problem=str(problem))
                break
        done += await self._settle(connection, sent, stuck)
        if done:
            self._swept.inc(done)
            _log.info("outbox.swept", rows=done)
        return done

    async def _settle(
        self,
        connection: Connection,
        sent: dict[str, tuple[RecordedEvent, "asyncio.Future[None]"]],
        stuck: set[str],
    ) -> int:
        """Wait for what was sent and write down how it went; how many rows were published."""
        if not sent:
            return 0
        await asyncio.wait([acknowledged for _, acknowledged in sent.values()], timeout=_ACKNOWLEDGE_SECONDS)
        published = []
        for row, acknowledged in sent.values():
            problem = problem_of(acknowledged)
            if problem is None:
                published.append(row.id)
                continue
            stuck.add(row.subject)
            if isinstance(problem, MessageRefused):
                await self._count_failure(connection, row, str(problem))
        sent.clear()
        if published:
            await table.mark_published(connection, published)
        return len(published)

    async def _count_failure(self, connection: Connection, event: RecordedEvent, reason: str) -> None:
        if await table.count_failure(connection, event.id, reason) < _PARK_AFTER:
            return
        async with connection.transaction():
            await table.park(connection, event.id)
            replacement = substitute_for(event, reason)
            if replacement is not None:
                await table.insert(connection, [replacement], self._source, _nothing_before)
        self._parked.inc()
        _log.error("outbox.parked", **_ids(event), type=event.type, reason=reason)

    async def release(self) -> None:
        """Publish directly again what is about subjects that the sweeper is done with."""
        before = dict(self._deferred)
        try:
            async with self._database.connection() as connection:
                still_waiting = await table.waiting_subjects(connection, list(before))
        except Exception as problem:
            if not is_outage(problem):
                raise
            return
        # One held again while the database was asked may have rows that the answer does not know of.
        for subject, holds in before.items():
            if subject not in still_waiting and self._deferred.get(subject) == holds:
                del self._deferred[subject]

    async def _forget(self, connection: Connection) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._forgot_at < _FORGET_SECONDS:
            return
        self._forgot_at = now
        while await table.forget(connection, _KEEP_DAYS):
            pass
        await connection.execute(
            "DELETE FROM inbox WHERE received_at < now() - make_interval(days => %s)", (_KEEP_DAYS,)
        )


def _ids(event: RecordedEvent) -> dict[str, str]:
    return {"event_id": event.event_id, "correlation_id": event.correlation_id}


def _nothing_before(_subject: str, _sequence: int) -> bool:
    # The sweeper, which replaces the event, goes through all that waits by itself.
    return True
