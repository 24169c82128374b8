"""A pool of psycopg connections."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson
from psycopg import AsyncConnection
from psycopg.rows import TupleRow, dict_row
from psycopg_pool import AsyncConnectionPool

from libs.json_text import write_json
from libs.persistence._errors import is_stale, outage_of, redact_values

Connection = AsyncConnection[TupleRow]
Parameters = Mapping[str, Any] | Sequence[Any] | None
_LOCK_TIMEOUT_MS = 5000
# A plan made for an empty table must not scan the whole table until the next ANALYZE. Bitmap scans never mark dead
# index entries, so each lookup of live turns would read all turns that ended since the last vacuum. PostgreSQL before
# 18 overestimates an unavoidable scan and would JIT-compile it on each execution.
_PLAN_ONCE = " -c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off -c jit=off"
# These options detect a vanished server after half a minute. With the system's defaults, it can take two hours.
_KEEPALIVE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
_NUL: Final = b"\\u0000"
_REPLACEMENT: Final = b"\\ufffd"
_ESCAPED_BACKSLASH: Final = b"\\\\"


class Database:
    """The database of a service. Connections are in autocommit mode.

    A caller waits at most ``timeout`` seconds for a connection, then gets an outage error.

    With ``plan_once``, PostgreSQL keeps one plan per prepared statement. Use it if statements find rows by ID, because
    then the best plan is always the same, and planning takes longer than execution.

    Turn ``prepare`` off behind a transaction pooler. The next transaction may get a connection that doesn't have the
    prepared statement.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        max_size: int = 10,
        timeout: float = 5.0,
        statement_timeout: float = 30.0,
        plan_once: bool = False,
        prepare: bool = True,
    ) -> None:
        options: dict[str, Any] = {
            "autocommit": True,
            **({} if prepare else {"prepare_threshold": None}),
            "application_name": f"aes-{name}",
            "connect_timeout": 5,
            **_KEEPALIVE,
            "options": f"-c statement_timeout={int(statement_timeout * 1000)}"
            # Statements that wait for a stuck lock fail early enough to be retried.
            f" -c lock_timeout={_LOCK_TIMEOUT_MS} -c idle_in_transaction_session_timeout=60000"
            f"{_PLAN_ONCE if plan_once else ''}",
        }
        self.url = url
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            url,
            kwargs=options,
            min_size=1,
            max_size=max_size,
            timeout=timeout,
            # The pool backs off between reconnects. After it gives up, the next request reconnects immediately.
            reconnect_timeout=3.0,
            open=False,
            name=name,
        )

    async def open(self) -> None:
        await self._pool.open(wait=False)

    async def close(self) -> None:
        await self._pool.close(timeout=2.0)

    @property
    def waiting(self) -> int:
        """The number of callers that are waiting for a connection."""
        return self._pool.get_stats().get("requests_waiting", 0)

    async def ping(self) -> None:
        """Raises an error if the database doesn't respond."""
        async with self._pool.connection(timeout=2.0) as connection:
            await connection.execute("SELECT 1")

    async def execute(self, statement: str, parameters: Parameters = None) -> list[Any]:
        """Executes a statement in autocommit mode. Returns the rows, if any."""
        async with self.connection() as connection:
            cursor = await connection.execute(statement, parameters)
            return await cursor.fetchall() if cursor.description else []

    async def records(self, statement: str, parameters: Parameters = None) -> list[dict[str, Any]]:
        """Executes a statement in autocommit mode. Returns the rows as dictionaries."""
        async with self.connection() as connection:
            return await fetch_records(connection, statement, parameters)

    async def value(self, statement: str, parameters: Parameters = None) -> Any:
        """Executes a statement in autocommit mode. Returns the first row's first column, or None if there's no row."""
        async with self.connection() as connection:
            return await fetch_value(connection, statement, parameters)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Opens a transaction, which is committed at the end of the block or rolled back on an error."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def pipelined(self) -> AsyncIterator[Connection]:
        """Opens a transaction whose statements are sent without waiting for each other's results.

        A result can be fetched inside the block or after it. A statement's error may be raised later, at the end of the
        block at the latest.
        """
        async with self.connection() as connection:
            try:
                async with connection.pipeline():
                    # psycopg's own transaction would wait for the server at both ends.
                    await connection.execute("BEGIN")
                    yield connection
                    await connection.execute("COMMIT")
            except BaseException:
                # The rollback tells psycopg that the statements after a failed one weren't prepared.
                await connection.rollback()
                raise

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Provides a connection in autocommit mode.

        Raises ``StoreBusy`` and ``StoreUnavailable`` instead of psycopg's outage errors.
        """
        cancellations = _cancellations()
        connection: Connection | None = None
        try:
            connection = await self._pool.getconn()
            if _cancellations() > cancellations:
                # The pool uses `asyncio.wait_for`. Before Python 3.12, that loses a cancellation that arrives together
                # with the connection, and the task would never end.
                raise asyncio.CancelledError
            yield connection
        except BaseException as problem:
            redact_values(problem)
            if connection is not None and is_stale(problem):
                await connection.close()
            if isinstance(problem, Exception) and _cancellations() > cancellations:
                # A failed cleanup of a cancelled block, such as the rollback, must not hide the cancellation.
                raise asyncio.CancelledError from problem
            if (outage := outage_of(problem)) is not None:
                raise outage from problem
            raise
        finally:
            if connection is not None:
                # The return is shielded, since cancelling it would lose the connection permanently.
                await asyncio.shield(self._pool.putconn(connection))


async def fetch_records(connection: Connection, statement: str, parameters: Parameters = None) -> list[dict[str, Any]]:
    """Executes a statement and returns the rows as dictionaries."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement, parameters)
        return await cursor.fetchall()


async def fetch_value(connection: Connection, statement: str, parameters: Parameters = None) -> Any:
    """Executes a statement and returns the first row's first column, or None if there's no row."""
    row = await (await connection.execute(statement, parameters)).fetchone()
    return row[0] if row else None


def as_json(value: Any) -> str:
    """Encodes a value as JSON for PostgreSQL. NUL becomes U+FFFD, since PostgreSQL's text type can't store it."""
    data = write_json(value)
    if _NUL in data:
        parts = data.split(_ESCAPED_BACKSLASH)
        data = _ESCAPED_BACKSLASH.join(part.replace(_NUL, _REPLACEMENT) for part in parts)
    return data.decode()


def embedded_json(document: bytes) -> orjson.Fragment | str:
    """Embeds a JSON document in a JSON parameter, so that a ``text`` column receives the document unchanged.

    Documents with NUL are embedded as strings, since PostgreSQL rejects NUL. So are documents that aren't objects,
    since a JSON string would lose its quotes.
    """
    return orjson.Fragment(document) if document.startswith(b"{") and _NUL not in document else document.decode()


def _cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
