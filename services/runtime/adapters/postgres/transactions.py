"""Transactions with their events, and the driver's outages as the port's error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from libs.eventing import Outbox, Transaction
from libs.persistence import is_outage
from services.runtime.domain.ports import StoreUnavailable

_NUL = b"\\u0000"
_REPLACEMENT = b"\\ufffd"
_ESCAPED_BACKSLASH = b"\\\\"


class Transactions:
    """Opens transactions that end with their events in the outbox.

    Raises StoreUnavailable for an outage, lost connections and lock waits included.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    @asynccontextmanager
    async def pipelined(self) -> AsyncIterator[Transaction]:
        """For the hot path: a round trip only where a result is fetched."""
        with translate_outages():
            async with self._outbox.pipelined() as transaction:
                yield transaction

    @asynccontextmanager
    async def plain(self) -> AsyncIterator[Transaction]:
        with translate_outages():
            async with self._outbox.transaction() as transaction:
                yield transaction


class translate_outages:  # noqa: N801 - reads as a context manager
    """Raises StoreUnavailable for the driver's outages."""

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
