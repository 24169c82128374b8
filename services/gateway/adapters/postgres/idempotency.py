"""Stores idempotency keys in PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from libs.contracts.errors import ServiceUnavailable, StoreUnavailable
from libs.fairness import FairSemaphore
from libs.persistence import Connection, Database
from services.gateway.domain.idempotency import IdempotencyRecord, IdempotentRequest, KeyReused, Write

_WAIT_SECONDS: Final = 5.0
# Connections that stay free for other companies when one company has used up its half.
_SPARE: Final = 2
_RETRY_AFTER: Final = 2
_RECORD: Final = """
WITH added AS (
    INSERT INTO idempotency_keys
        (company_id, principal_id, method, path, key, body_hash, command_id, correlation_id, created_at)
    VALUES (%(company_id)s, %(principal_id)s, %(method)s, %(path)s, %(key)s, %(body_hash)s, %(command_id)s,
            %(correlation_id)s, now())
    ON CONFLICT DO NOTHING
    RETURNING command_id, correlation_id, body_hash, false
)
SELECT * FROM added
UNION ALL
SELECT command_id, correlation_id, body_hash, true FROM idempotency_keys
WHERE company_id = %(company_id)s AND principal_id = %(principal_id)s AND method = %(method)s
  AND path = %(path)s AND key = %(key)s
"""

# The refused ID guards the update: one of several concurrent retries renews the row, and the others find the new ID.
_RENEW: Final = """
UPDATE idempotency_keys SET command_id = %(command_id)s
WHERE company_id = %(company_id)s AND principal_id = %(principal_id)s AND method = %(method)s
  AND path = %(path)s AND key = %(key)s AND command_id = %(refused)s
RETURNING command_id, correlation_id
"""

_FIND: Final = """
SELECT command_id FROM idempotency_keys
WHERE company_id = %(company_id)s AND principal_id = %(principal_id)s AND method = %(method)s
  AND path = %(path)s AND key = %(key)s
"""


class PostgresIdempotency:
    """Records idempotency keys, and shares the database connections fairly among companies.

    Every write starts here, so one company's burst could block all others. A company can use half of ``connections``,
    or more while no other company is waiting and two connections stay free.
    """

    def __init__(self, database: Database, *, connections: int, seconds: float = _WAIT_SECONDS) -> None:
        self._database = database
        self._permits = FairSemaphore(connections, each=max(connections // 2, 1), spare=_SPARE)
        self._seconds = seconds

    @property
    def waiting(self) -> int:
        """The number of writes that are waiting for a database connection."""
        return self._permits.waiting

    @asynccontextmanager
    async def _connection(self, company_id: str) -> AsyncIterator[Connection]:
        """Reserves a database connection for a write of the company.

        Raises ``ServiceUnavailable`` if the company has too many writes in progress, and ``StoreUnavailable`` if no
        connection is free.
        """
        has_turn = False
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(self._seconds):
                    await held.enter_async_context(self._permits.acquire(company_id))
                    has_turn = True
                    connection = await held.enter_async_context(self._database.connection())
            except TimeoutError:
                if has_turn:
                    raise StoreUnavailable(f"no connection became free within {self._seconds:g} s") from None
                message = "The company has too many writes in progress. Try again later."
                raise ServiceUnavailable(message, retry_after=_RETRY_AFTER) from None
            yield connection

    async def record(self, request: IdempotentRequest, *, command_id: str, correlation_id: str) -> IdempotencyRecord:
        async with self._connection(request.company_id) as connection:
            return await _record(connection, request, command_id=command_id, correlation_id=correlation_id)

    async def find(self, request: IdempotentRequest) -> str | None:
        async with self._connection(request.company_id) as connection:
            row = await (await connection.execute(_FIND, _key_of(request))).fetchone()
        return None if row is None else str(row[0])

    async def renew(
        self, request: IdempotentRequest, *, refused: str, command_id: str, correlation_id: str
    ) -> IdempotencyRecord:
        values = {**_key_of(request), "refused": refused, "command_id": command_id}
        async with self._connection(request.company_id) as connection:
            row = await (await connection.execute(_RENEW, values)).fetchone()
            if row is not None:
                return IdempotencyRecord(command_id=str(row[0]), correlation_id=row[1])
            # Another retry renewed the row first, or the row was purged: record as for a first request.
            return await _record(connection, request, command_id=command_id, correlation_id=correlation_id)


async def _record(
    connection: Connection, request: IdempotentRequest, *, command_id: str, correlation_id: str
) -> IdempotencyRecord:
    values = {
        **_key_of(request),
        "body_hash": request.body_hash,
        "command_id": command_id,
        "correlation_id": correlation_id,
    }
    row = None
    while row is None:
        # A row that another request has just committed conflicts but isn't in this statement's snapshot: retry.
        row = await (await connection.execute(_RECORD, values)).fetchone()
    recorded_id, recorded_correlation, body_hash, repeated = row
    if bytes(body_hash) != request.body_hash:
        raise KeyReused(str(recorded_id), bytes(body_hash))
    return IdempotencyRecord(command_id=str(recorded_id), correlation_id=recorded_correlation, repeated=repeated)


async def claim(connection: Connection, write: Write, entity_id: str) -> None:
    """Records that this write creates the entity. Raises ``KeyReused`` if an earlier request has used the same key."""
    if write.request is None:
        return
    record = await _record(connection, write.request, command_id=entity_id, correlation_id=write.correlation_id)
    if record.repeated:
        raise KeyReused(record.command_id, write.request.body_hash)


def _key_of(request: IdempotentRequest) -> dict[str, str]:
    return {name: getattr(request, name) for name in ("company_id", "principal_id", "method", "path", "key")}
