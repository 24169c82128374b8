"""Sends outbox messages that were left behind, parks those that can never be sent, has old rows purged."""

import asyncio
from typing import Final

import structlog

from libs.contracts.errors import ErrorInfo, ErrorKind
from libs.contracts.messages import CommandRejected, command_models
from libs.eventing import _metrics as metrics
from libs.eventing import _outbox_table as table
from libs.eventing._bus import BusUnavailable, MessageRefused, problem_of
from libs.eventing._messages import MessageContext, MessageDraft, is_terminal
from libs.eventing._outbox_table import OutboxMessage
from libs.eventing._publisher import OutboxSender, Publisher
from libs.eventing._retention import Retention
from libs.persistence import Connection, Database, fetch_value, is_outage

_log = structlog.get_logger("eventing.outbox")
_SWEEP_SECONDS: Final = 1.0
_REST_SECONDS: Final = 2.0
# Younger rows are most likely just being published by the process that wrote them.
_SWEEP_AGE_SECONDS: Final = 2.0
_SWEEP_ROWS: Final = 500
_ACKNOWLEDGE_SECONDS: Final = 5.0
_PARK_AFTER: Final = 10
_LOCK: Final = 7_110_023


class Sweeper:
    """Sends what a crash or an outage left in the outbox, in row order; one process per database at a time.

    ``waiting`` is the number of unsent messages when it last looked, ``oldest`` the age of the first in seconds.
    """

    def __init__(self, database: Database, sender: OutboxSender, publisher: Publisher) -> None:
        self._database = database
        self._sender = sender
        self._publisher = publisher
        service = sender.source.rsplit("/", 1)[-1]
        self.retention = Retention(service)
        self._parked, self._swept = metrics.PARKED.labels(service), metrics.SWEPT.labels(service)
        self.waiting = 0
        self.oldest = 0.0

    async def run(self) -> None:
        """Sweeps every second while something waits, every two otherwise, until cancelled."""
        while True:
            waits = self.waiting or self._publisher.deferred_subjects
            await asyncio.sleep(_SWEEP_SECONDS if waits else _REST_SECONDS)
            try:
                async with self._database.connection() as connection:
                    await self.look(connection)
            except Exception as problem:
                if not (is_outage(problem) or isinstance(problem, BusUnavailable)):
                    _log.exception("outbox.sweep_failed")

    async def look(self, connection: Connection) -> None:
        """Counts what waits, and takes the lock only where there is something to do: mostly there is nothing."""
        await self.measure(connection)
        if self.waiting or self._publisher.deferred_subjects or self.retention.is_due:
            await self._sweep_while_leader(connection)
            await self.measure(connection)

    async def _sweep_while_leader(self, connection: Connection) -> None:
        if not await fetch_value(connection, "SELECT pg_try_advisory_lock(%s)", (_LOCK,)):
            return
        try:
            while self._sender.healthy and await self.sweep(connection) == _SWEEP_ROWS:
                pass
            await self.retention.keep(connection)
        finally:
            await connection.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))

    async def measure(self, connection: Connection) -> None:
        """Count what waits, in every process that sweeps: an outbox that grows old is an alarm."""
        self.waiting, self.oldest = await table.waiting(connection)

    async def sweep(self, connection: Connection) -> int:
        """Publish one batch of what waits, in row order; returns how many rows were published.

        Of each subject one row at a time is under way: a later one must not overtake one that is refused.
        """
        rows = await table.unpublished(
            connection,
            older_than=_SWEEP_AGE_SECONDS,
            subjects=self._publisher.deferred_subjects,
            limit=_SWEEP_ROWS,
        )
        done = 0
        sent: dict[str, tuple[OutboxMessage, asyncio.Future[None]]] = {}
        stuck = {row.subject for row in rows if self._publisher.is_in_flight(row)}
        for row in rows:
            if row.subject in sent:
                done += await self._settle(connection, sent, stuck)
            if row.subject in stuck:
                continue
            try:
                sent[row.subject] = (row, await self._sender.send(row))
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
        sent: dict[str, tuple[OutboxMessage, "asyncio.Future[None]"]],
        stuck: set[str],
    ) -> int:
        """Wait for acknowledgements and mark or count failures; returns how many rows were published."""
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

    async def _count_failure(self, connection: Connection, message: OutboxMessage, reason: str) -> None:
        if await table.count_failure(connection, message.id, reason) < _PARK_AFTER:
            return
        async with connection.transaction():
            await table.park(connection, message.id)
            substitute = _substitute_event(message, reason)
            if substitute is not None:
                # The sweeper itself goes through everything of the subject that waits before it.
                await table.insert(connection, [substitute], lambda _subject, _sequence: True)
        self._parked.inc()
        _log.error("outbox.parked", **message.log_ids(), type=message.type, reason=reason)


def _substitute_event(message: OutboxMessage, reason: str) -> MessageDraft | None:
    """The failure of a command whose outcome can never be sent; None for messages that are no outcome."""
    if message.causation_id is None or not is_terminal(message.type):
        return None
    command = next(model for model in command_models().values() if message.type in model.outcome_types())
    error = ErrorInfo(type=ErrorKind.INTERNAL, message=f"the outcome could not be published: {reason}")
    return MessageDraft(
        CommandRejected(error=error),
        subject=message.subject,
        context=MessageContext(
            message.company_id,
            message.correlation_id,
            message.causation_id,
            message.traceparent,
            message.owner_id,
        ),
        type=command.rejected_type(),
        topic=message.topic,
        sequence=message.sequence,
    )
