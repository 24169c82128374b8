"""Deletes rows of outbox, inbox and tables of the owner after their retention, in batches, a slice of time at once."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import structlog

from libs.eventing import _metrics as metrics
from libs.eventing import _outbox_table as outbox
from libs.eventing._expiry import EntityTable, Expiry, Place, purge_numbers
from libs.persistence import Connection, is_outage

_log = structlog.get_logger("eventing.retention")
# Longer than commands are kept on the bus: a redelivery must find what became of the first delivery.
_DAYS: Final = 8
_INBOX: Final = Expiry("inbox", since="received_at")
_INTERVAL_SECONDS: Final = 600.0
_ROWS: Final = 1000
_SLICE_SECONDS: Final = 0.5


class Retention:
    """Goes through the tables every ten minutes. What a slice of time leaves over is done in the next ones.

    Outbox and inbox are not partitioned by day: the unique indexes that make effects happen once, of a subject's
    sequence, of a command's outcome and of a consumer's message, would hold within a day only.

    The caller waits for ``slice_seconds`` at most, and for one batch of ``rows``: unsent messages must not wait behind
    the deletion of millions of rows.
    """

    def __init__(self, service: str = "", *, rows: int = _ROWS, slice_seconds: float = _SLICE_SECONDS) -> None:
        self._service = service
        self._rows = rows
        self._slice = slice_seconds
        self._due_at = 0.0
        self._purges: dict[str, Callable[[Connection], Awaitable[bool]]] = {
            "outbox": self._purge_outbox,
        }
        self._entities: list[EntityTable] = []
        self._left: list[str] = []
        self._after = 0
        self._places: dict[str, Place | None] = {}
        self.add(_INBOX, _DAYS)

    def add(self, expiry: Expiry, days: int) -> None:
        """Has these rows deleted after that many days, too."""
        self._purges[expiry.table] = partial(self._purge_expired, expiry, days)

    def know(self, *entities: EntityTable) -> None:
        """Has numbers of events deleted whose subjects are in none of these tables, which have all that has numbers."""
        self._entities += entities

    @property
    def is_due(self) -> bool:
        """Whether ``keep`` would delete something, or look for it."""
        return bool(self._left) or asyncio.get_running_loop().time() >= self._due_at

    async def keep(self, connection: Connection) -> None:
        """Deletes old rows for a slice of time, if it is due."""
        if not self.is_due:
            return
        now = asyncio.get_running_loop().time()
        if not self._left:
            self._due_at = now + _INTERVAL_SECONDS
            self._left, self._after, self._places = list(self._purges), 0, {}
        until = now + self._slice
        while self._left:
            # In turn: one that takes long, or fails, keeps none of the others waiting.
            name = self._left.pop(0)
            if await self._step(name, connection):
                self._left.append(name)
            if asyncio.get_running_loop().time() >= until:
                return

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
        async with connection.transaction():
            purged = await outbox.purge(connection, _DAYS, after=self._after, limit=self._rows)
            numbers = 0
            if purged.subjects and self._entities:
                numbers = await purge_numbers(connection, purged.subjects, self._entities)
        self._count("outbox", purged.count)
        self._count("event_sequences", numbers)
        self._after = purged.last or 0
        return purged.last is not None

    async def _purge_expired(self, expiry: Expiry, days: int, connection: Connection) -> bool:
        after = self._places.get(expiry.table)
        deleted, place = await expiry.purge(connection, days, after=after, limit=self._rows)
        self._places[expiry.table] = place
        self._count(expiry.table, deleted)
        return place is not None

    def _count(self, table: str, deleted: int) -> None:
        if deleted:
            metrics.PURGED.labels(self._service, table).inc(deleted)
