"""Stores companies' retention periods in PostgreSQL, and finds sessions that have exceeded them."""

from typing import Final

from libs.eventing import Transaction
from libs.persistence import Database
from services.runtime.domain.sessions import LockedSession, OldSessionBatch, SessionPosition

_SET: Final = """
    INSERT INTO retention (company_id, session_retention_days) VALUES (%s, %s)
    ON CONFLICT (company_id) DO UPDATE
    SET session_retention_days = EXCLUDED.session_retention_days, updated_at = now()
"""
_DAYS: Final = "SELECT session_retention_days FROM retention WHERE company_id = %s"
# Takes a single step through the sessions index, however many sessions a company has.
_NEXT_COMPANY: Final = """
    SELECT s.company_id, coalesce(r.session_retention_days, %(default)s)
    FROM (SELECT company_id FROM sessions WHERE listed AND company_id > %(after)s ORDER BY company_id LIMIT 1) s
    LEFT JOIN retention r ON r.company_id = s.company_id
"""
# Checking the last turn first rules out nearly all sessions in use. An idle session has neither a recent nor an
# unfinished turn.
_IDLE: Final = """
    s.status = 'active' AND CASE
        WHEN (SELECT coalesce(t.finished_at, 'infinity') FROM turns t WHERE t.session_id = s.id
              ORDER BY t.position DESC LIMIT 1) >= now() - make_interval(days => %(days)s) THEN false
        ELSE NOT EXISTS (
            SELECT FROM turns t WHERE t.session_id = s.id AND (
                t.finished_at IS NULL OR t.finished_at >= now() - make_interval(days => %(days)s)
                OR t.worker_id IS NOT NULL))
    END
"""
_OLD: Final = f"""
    SELECT s.created_at, s.id, {_IDLE} FROM (
        SELECT id, status, created_at FROM sessions
        WHERE company_id = %(company)s AND listed AND created_at < now() - make_interval(days => %(days)s) {{after}}
        ORDER BY created_at, id LIMIT %(limit)s) s
    ORDER BY s.created_at, s.id
"""
_AFTER: Final = "AND (created_at, id) > (%(created_at)s, %(id)s)"
_LOCK: Final = "SELECT id FROM sessions WHERE id = ANY(%s) ORDER BY id FOR UPDATE SKIP LOCKED"
_STILL_IDLE: Final = (
    f"SELECT s.id, s.company_id, s.owner_id, true FROM sessions s WHERE s.id = ANY(%(ids)s) AND {_IDLE}"
)


class PostgresRetentionReads:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def session_days(self, company_id: str) -> int | None:
        """Returns the company's own retention period in days, or None if it hasn't set one."""
        days: int | None = await self._database.value(_DAYS, (company_id,))
        return days

    async def next_company(self, after: str, default: int | None) -> tuple[str, int | None] | None:
        """Returns the next company with sessions and its period in days, which is None without a limit.

        Returns None after the last company.
        """
        rows = await self._database.execute(_NEXT_COMPANY, {"after": after, "default": default})
        return (rows[0][0], rows[0][1]) if rows else None


class PostgresRetentionWriter:
    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.connection

    async def set_session_days(self, company_id: str, days: int | None) -> None:
        await self._connection.execute(_SET, (company_id, days))

    async def lock_old(
        self, company_id: str, days: int, *, after: SessionPosition | None, limit: int
    ) -> OldSessionBatch:
        """Reads up to ``limit`` sessions and locks the idle ones. Sessions that are already locked are skipped."""
        given = {"company": company_id, "days": days, "limit": limit, **({} if after is None else after._asdict())}
        statement = _OLD.format(after="" if after is None else _AFTER)
        old = await (await self._connection.execute(statement.encode(), given)).fetchall()
        last = SessionPosition(*old[-1][:2]) if len(old) == limit else None
        idle = [session_id for _, session_id, is_idle in old if is_idle]
        if not idle:
            return OldSessionBatch([], last)
        locked = [row[0] for row in await (await self._connection.execute(_LOCK, (idle,))).fetchall()]
        # Check again in a separate statement, since a turn may have been admitted just before the locks.
        still = await self._connection.execute(_STILL_IDLE.encode(), {"ids": locked, "days": days})
        return OldSessionBatch([LockedSession(*row) for row in await still.fetchall()], last)
