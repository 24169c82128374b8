"""Transactions of the hot path: statements are pipelined, so that a transaction takes three round trips."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson

from libs.eventing import EventDraft, Outbox, Transaction
from libs.persistence import Connection, Database, is_outage
from services.runtime.domain.ports import StoreUnavailable

_NUL = b"\\u0000"
_REPLACEMENT = b"\\ufffd"
_ESCAPED_BACKSLASH = b"\\\\"


class HotTransaction:
    """A transaction in pipeline mode: ``connection.execute`` returns before its result is there."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.drafts: list[EventDraft] = []

    def emit(self, drafts: Sequence[EventDraft]) -> None:
        self.drafts.extend(drafts)


class HotTransactions:
    """Opens pipelined transactions that end with their events in the outbox.

    Raises StoreUnavailable for an outage, lost connections and lock waits included.
    """

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[HotTransaction]:
        with translated():
            async with self._database.connection() as connection:
                try:
                    async with connection.pipeline():
                        await connection.execute("BEGIN")
                        transaction = HotTransaction(connection)
                        yield transaction
                        appended = await self._outbox.append(connection, transaction.drafts)
                        await connection.execute("COMMIT")
                except BaseException:
                    await connection.rollback()
                    raise
            self._outbox.publish(appended)


class PlainTransactions:
    """Opens ordinary transactions with their events, for what is not on the hot path."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Transaction]:
        with translated():
            async with self._outbox.transaction() as transaction:
                yield transaction


class translated:  # noqa: N801 - reads as a context manager
    """Turns the driver's outage errors into the port's."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: object) -> None:
        if problem is not None and is_outage(problem):
            raise StoreUnavailable(str(problem)) from problem


def as_json(value: Any) -> str:
    """JSON for the database. PostgreSQL's text has no NUL character: it becomes U+FFFD, as decoders do."""
    data = orjson.dumps(value)
    if _NUL in data:
        parts = data.split(_ESCAPED_BACKSLASH)
        data = _ESCAPED_BACKSLASH.join(part.replace(_NUL, _REPLACEMENT) for part in parts)
    return data.decode()
