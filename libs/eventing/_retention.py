"""Deletes rows of outbox, inbox and tables of the owner after their retention, in batches, a slice of time at once."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from libs.eventing import _metrics as metrics
from libs.eventing import _outbox_table as outbox
from libs.eventing._expiry import EntityTable, Expiry, Position, PurgedBatch, purge_numbers
from libs.persistence import Connection, is_outage

_log = structlog.get_logger("eventing.retention")
# Longer than commands are kept on the bus: a redelivery must find what became of the first delivery.
_DAYS: Final = 8
_INBOX: Final = Expiry("inbox", since="received_at")
_INTERVAL_SECONDS: Final = 600.0
# Rows can come back before others that were deleted: when a standby takes over that lacks the last deletions, or when
# the database's clock was days ahead.
_FROM_FIRST_SECONDS: Final = 86_400.0
_ROWS: Final = 1000
_SLICE_SECONDS: Final = 0.5


@dataclass(slots=True)
class _Progress:
    """The positions in a table where the purge goes on: ``at`` in this pass, ``gone_up_to`` in the next one.

    Beginning at the first row, each pass would walk again along all that are gone since the last vacuum, which comes
    late in a large table.
    """

    at: Position | None = None
    gone_up_to: Position | None = None
    _kept_none: bool = True

    def begin(self) -> None:
        self.at, self._kept_none = self.gone_up_to, True

    def advance(self, batch: PurgedBatch, *, by_age: bool) -> None:
        """Goes on after a batch. ``by_age``: no row appears before one that was deleted."""
        self.at = batch.last or self.at
        self._kept_none = self._kept_none and not batch.kept
        if by_age and self._kept_none:
            self.gone_up_to = self.at


class Retention:
    """Goes through the tables every ten minutes. What a slice of time leaves over is done in the next ones.

    Outbox and inbox are not partitioned by day: the unique indexes that make effects happen once, of a subject's
    sequence, of a command's outcome and of a consumer's message, would hold within a day only.

    The caller waits for ``slice_seconds`` at most, and for one batch of ``rows``: unsent messages must not wait behind
    the deletion of millions of rows.
    """

    def __init__(
        self,
        service: str = "",
        *,
        rows: int = _ROWS,
        slice_seconds: float = _SLICE_SECONDS,
        interval_seconds: float = _INTERVAL_SECONDS,
    ) -> None:
        self._service = service
        self._interval = interval_seconds
        self._rows = rows
        self._slice = slice_seconds
        self._due_at = 0.0
        self._purges: dict[str, Callable[[Connection], Awaitable[bool]]] = {
            "outbox": self._purge_outbox,
        }
        self._entities: list[EntityTable] = []
        self._left: list[str] = []
        self._progress: defaultdict[str, _Progress] = defaultdict(_Progress)
        self._from_first_at = 0.0
        self.add(_INBOX, _DAYS)

    def add(self, expiry: Expiry, days: int) -> None:
        """Has these rows deleted, too: after that many days, unless they have their own."""
        self._purges[expiry.table] = partial(self._purge_expired, expiry, expiry.days or days)

    def know(self, *entities: EntityTable) -> None:
        """Has numbers of events deleted whose subjects are in none of these tables, which have all that has numbers."""
        self._entities += entities

    @property
    def is_due(self) -> bool:
        """Whether ``keep`` would delete something, or look for it."""
        return bool(self._left) or asyncio.get_running_loop().time() >= self._due_at

    async def keep(self, connection: Connection) -> bool:
        """Deletes old rows for a slice of time, if it is due; returns whether something of this pass is left."""
        if not self.is_due:
            return False
        now = asyncio.get_running_loop().time()
        if not self._left:
            self._due_at = now + self._interval
            self._left = list(self._purges)
            if now >= self._from_first_at:
                self._from_first_at = now + _FROM_FIRST_SECONDS
                self._progress.clear()
            for progress in self._progress.values():
                progress.begin()
        until = now + self._slice
        while self._left:
            # In turn: one that takes long, or fails, keeps none of the others waiting.
            name = self._left.pop(0)
            if await self._step(name, connection):
                self._left.append(name)
            if asyncio.get_running_loop().time() >= until:
                break
        return bool(self._left)

    async def _step(self, name: str, connection: Connection) -> bool:
        """Deletes a batch; returns whether there may be more. A failure is left to the next time."""
        try:
            return await self._purges[name](connection)
        except Exception as problem:
            metrics.PURGE_FAILURES.labels(self._service, name).inc()
            if is_outage(problem):
                _log.warning("retention.postponed", table=name, problem=str(problem).strip())
            else:
                _log.exception("retention.failed", table=name)
            return False

    async def _purge_outbox(self, connection: Connection) -> bool:
        progress = self._progress["outbox"]
        async with connection.transaction():
            batch, subjects = await outbox.purge(connection, _DAYS, after=progress.at, limit=self._rows)
            numbers = await purge_numbers(connection, subjects, self._entities) if subjects and self._entities else 0
        progress.advance(batch, by_age=True)
        self._count("outbox", batch.deleted)
        self._count("event_sequences", numbers)
        return batch.goes_on

    async def _purge_expired(self, expiry: Expiry, days: int, connection: Connection) -> bool:
        progress = self._progress[expiry.table]
        batch = await expiry.purge(connection, days, after=progress.at, limit=self._rows)
        progress.advance(batch, by_age=expiry.goes_by_age)
        self._count(expiry.table, batch.deleted)
        return batch.goes_on

    def _count(self, table: str, deleted: int) -> None:
        if deleted:
            metrics.PURGED.labels(self._service, table).inc(deleted)
