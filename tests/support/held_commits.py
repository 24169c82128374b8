"""Transactions that are held open at their commit, so that others meet them whatever the speed of the machine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from psycopg import AsyncConnection

from tests.support.waiting import until

_LOCK: Final = 4711
# Services wait for no lock longer than five seconds, in which a busy machine may not have come to the end of the block.
_DEFERRED: Final = """
    CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0
    AS $$ BEGIN {what}; RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER at_commit AFTER {change} ON {table} DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW {when} EXECUTE FUNCTION at_commit()
"""
_WAITING: Final = """
    SELECT count(*) FROM pg_locks
    WHERE locktype = 'advisory' AND NOT granted AND objid = %s
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_Connection = AsyncConnection[tuple[Any, ...]]


def at_commit(what: str, table: str, change: str = "INSERT", when: str = "") -> str:
    """Statements after which a transaction that has changed such a row does that at its commit."""
    return _DEFERRED.format(what=what, table=table, change=change, when=f"WHEN ({when})" if when else "")


class HeldCommits:
    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    async def reached(self, count: int = 1) -> None:
        """Waits until so many transactions have come to their commit."""
        await until(lambda: self._waiting(count), f"{count} transactions come to their commit")

    async def _waiting(self, count: int) -> bool:
        row = await (await self._connection.execute(_WAITING, (_LOCK,))).fetchone()
        return row is not None and row[0] >= count


@asynccontextmanager
async def commits_held(url: str, table: str, change: str = "INSERT", when: str = "") -> AsyncIterator[HeldCommits]:
    """No transaction that changes such a row of the table is committed before the end of this block."""
    async with await AsyncConnection.connect(url, autocommit=True) as other:
        await other.execute(at_commit(f"PERFORM pg_advisory_xact_lock_shared({_LOCK})", table, change, when))
        await other.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        try:
            yield HeldCommits(other)
        finally:
            await other.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))
            await other.execute(f"DROP TRIGGER at_commit ON {table}; DROP FUNCTION at_commit")
