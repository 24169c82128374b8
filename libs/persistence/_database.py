"""A pool of psycopg connections. SQL is written in the services' adapters; there is no mapper in between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from libs.persistence._errors import leave_out_values

Connection = AsyncConnection[TupleRow]
_LOCK_TIMEOUT_MS = 5000
# A plan made while a table was empty must not read the whole of it for as long as nobody has analyzed it.
# Where a scan is all there is, it counts as so costly before PostgreSQL 18 that each execution would be compiled.
_PLAN_ONCE = " -c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off"
# A server that vanishes without a word, with its machine say, is noticed after half a minute. By itself the system
# waits a quarter of an hour for an acknowledgement, and two hours for an answer.
_PROOF_OF_LIFE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
_CONTENTION = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
)


def is_outage(problem: BaseException) -> bool:
    """Whether the database, not the statement, is at fault: work may be tried again unchanged."""
    if isinstance(problem, PoolTimeout | PoolClosed):
        return True
    if isinstance(problem, psycopg.errors.QueryCanceled | psycopg.errors.ProgramLimitExceeded):
        return False
    return isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError)


def is_contention(problem: BaseException) -> bool:
    """Whether others held the locks that the work needed.

    That, too, is an outage to whoever can only try again. But it may be the work's own doing: a message that meets
    it every time would be tried for ever.
    """
    return isinstance(problem, _CONTENTION)


class Database:
    """One service's own database.

    Connections are in autocommit mode: a read needs no transaction, and a write says so by ``transaction()``.
    Waiting for a connection is bounded by ``timeout`` seconds and ends in an error that ``is_outage`` knows.

    ``plan_once`` keeps the plan of a prepared statement whatever its parameters are. It is for owners whose
    statements find rows by id: the best plan is always the same one, and planning costs more than the work.
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
    ) -> None:
        options: dict[str, Any] = {
            "autocommit": True,
            "application_name": f"aes-{name}",
            "connect_timeout": 5,
            **_PROOF_OF_LIFE,
            "options": f"-c statement_timeout={int(statement_timeout * 1000)}"
            # A frozen holder of a lock fails those behind it early enough that they can try again.
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
            # Its own attempts come at ever longer intervals; once it has given up, the next request tries at once.
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
        """How many callers wait for a connection right now."""
        return self._pool.get_stats().get("requests_waiting", 0)

    async def ping(self) -> None:
        """Raises when the database does not answer."""
        async with self._pool.connection(timeout=2.0) as connection:
            await connection.execute("SELECT 1")

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection in autocommit mode, for single statements."""
        async with self._checked_out() as connection:
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A transaction: committed at the end of the block, rolled back when it raises."""
        async with self._checked_out() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def _checked_out(self) -> AsyncIterator[Connection]:
        cancellations = _cancellations()
        connection: Connection | None = None
        try:
            connection = await self._pool.getconn()
            if _cancellations() > cancellations:
                # Until Python 3.12 `asyncio.wait_for`, with which the pool waits, forgets a cancellation that comes
                # at the moment of a connection; whoever cancelled would wait for a task that goes on for ever.
                raise asyncio.CancelledError
            yield connection
        except BaseException as problem:
            leave_out_values(problem)
            if isinstance(problem, Exception) and _cancellations() > cancellations:
                # What fails while a cancelled block ends, a rollback say, must not stand in for the cancellation.
                raise asyncio.CancelledError from problem
            raise
        finally:
            if connection is not None:
                # Shielded: one whose way back is cut off would be missing in the pool for ever.
                await asyncio.shield(self._pool.putconn(connection))


def _cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
