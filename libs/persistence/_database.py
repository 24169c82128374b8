"""A pool of psycopg connections, rows and JSON. The services' adapters write SQL themselves, without a mapper."""

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
# A plan made while a table was empty must not scan the whole table until somebody has analyzed it. Nor use a bitmap,
# whose scan marks no entry of an index as dead: each look for a company's live turns would read all those of its turns
# that have ended since the last vacuum. No jit: where only a scan is possible, PostgreSQL before 18 takes it for so
# costly that it compiles each execution.
_PLAN_ONCE = " -c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off -c jit=off"
# A server whose machine vanished is noticed after half a minute. Left alone the system waits a quarter of an hour for
# an acknowledgement, and two hours for an answer.
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
    """One service's own database.

    Connections are in autocommit mode: a read needs no transaction, and a write says so by ``transaction()``.
    A caller waits ``timeout`` seconds for a connection at most, then gets an error that is an outage.

    ``plan_once`` keeps one plan per prepared statement, whatever its parameters. It suits services whose statements
    find rows by id: the best plan is always the same, and planning costs more than the work.

    ``prepare``: whether statements that come again are prepared. Behind a pooler that lends connections for single
    transactions the next one may be on another connection, which knows nothing of it.
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
            # Waiters behind a frozen holder of a lock fail early enough to retry.
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
            # The pool reconnects at ever longer intervals; once it has given up, the next request connects at once.
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
        """The number of callers that wait for a connection."""
        return self._pool.get_stats().get("requests_waiting", 0)

    async def ping(self) -> None:
        """Raises when the database does not answer."""
        async with self._pool.connection(timeout=2.0) as connection:
            await connection.execute("SELECT 1")

    async def execute(self, statement: str, parameters: Parameters = None) -> list[Any]:
        """Executes a single statement in autocommit mode; returns its rows, none for a statement without a result."""
        async with self.connection() as connection:
            cursor = await connection.execute(statement, parameters)
            return await cursor.fetchall() if cursor.description else []

    async def records(self, statement: str, parameters: Parameters = None) -> list[dict[str, Any]]:
        """Executes a single statement in autocommit mode; returns its rows by the names of their columns."""
        async with self.connection() as connection:
            return await fetch_records(connection, statement, parameters)

    async def value(self, statement: str, parameters: Parameters = None) -> Any:
        """Executes a single statement in autocommit mode; returns what ``fetch_value`` does."""
        async with self.connection() as connection:
            return await fetch_value(connection, statement, parameters)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A transaction: committed at the end of the block, rolled back when it raises."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def pipelined(self) -> AsyncIterator[Connection]:
        """A transaction like ``transaction``, whose statements do not wait for each other's results.

        A result is waited for where it is fetched, inside the block or after it. An error of a statement is raised by a
        later statement, where a result is fetched next, or at the end of the block, whichever comes first.
        """
        async with self.connection() as connection:
            try:
                async with connection.pipeline():
                    # A transaction of psycopg's would wait for the server at both its ends.
                    await connection.execute("BEGIN")
                    yield connection
                    await connection.execute("COMMIT")
            except BaseException:
                # Behind a statement that failed nothing was prepared, and psycopg believes that it was, until this.
                await connection.rollback()
                raise

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection in autocommit mode, for single statements.

        Raises ``StoreBusy`` and ``StoreUnavailable`` in place of the database's own errors that are outages.
        """
        cancellations = _cancellations()
        connection: Connection | None = None
        try:
            connection = await self._pool.getconn()
            if _cancellations() > cancellations:
                # The pool waits by `asyncio.wait_for`, which before Python 3.12 forgets a cancellation that comes
                # together with the connection: the task would never end.
                raise asyncio.CancelledError
            yield connection
        except BaseException as problem:
            redact_values(problem)
            if connection is not None and is_stale(problem):
                await connection.close()
            if isinstance(problem, Exception) and _cancellations() > cancellations:
                # A failure while a cancelled block ends, of the rollback for example, must not hide the cancellation.
                raise asyncio.CancelledError from problem
            if (outage := outage_of(problem)) is not None:
                raise outage from problem
            raise
        finally:
            if connection is not None:
                # Shielded: a connection whose return is cancelled would be missing in the pool for ever.
                await asyncio.shield(self._pool.putconn(connection))


async def fetch_records(connection: Connection, statement: str, parameters: Parameters = None) -> list[dict[str, Any]]:
    """Executes a statement; returns its rows by the names of their columns."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement, parameters)
        return await cursor.fetchall()


async def fetch_value(connection: Connection, statement: str, parameters: Parameters = None) -> Any:
    """Executes a statement; returns the first column of its first row, None when there is no row."""
    row = await (await connection.execute(statement, parameters)).fetchone()
    return row[0] if row else None


def as_json(value: Any) -> str:
    """JSON for the database. PostgreSQL's text has no NUL character: it becomes U+FFFD, as decoders do."""
    data = write_json(value)
    if _NUL in data:
        parts = data.split(_ESCAPED_BACKSLASH)
        data = _ESCAPED_BACKSLASH.join(part.replace(_NUL, _REPLACEMENT) for part in parts)
    return data.decode()


def embedded_json(document: bytes) -> orjson.Fragment | str:
    """The document as a value within a JSON parameter of many rows: a column of type ``text`` reads it as it is.

    PostgreSQL unescapes what it reads and refuses NUL; within a string the escape itself is escaped. Documents other
    than objects would lose their quotes.
    """
    return orjson.Fragment(document) if document.startswith(b"{") and _NUL not in document else document.decode()


def _cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
