"""Reads sessions, messages and turns for callers."""

from __future__ import annotations

from typing import Any, Final

import orjson

from libs.contracts.api.sessions import Message, MessagePage, Session, SessionPage, Turn
from libs.contracts.identity import Identity
from libs.persistence import Connection, Database

_VISIBLE: Final = "company_id = %(company)s AND (%(everyone)s OR owner_id = %(user)s)"
_SESSION_COLUMNS: Final = "id, config_hash, created_at, status, config::text, agent_id, owner_id"
_SESSION: Final = f"SELECT {_SESSION_COLUMNS} FROM sessions WHERE id = %(session)s AND {_VISIBLE}"
_SESSIONS: Final = f"""
    SELECT {_SESSION_COLUMNS} FROM sessions WHERE {_VISIBLE}
    ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s
"""
_COUNT_SESSIONS: Final = f"SELECT count(*) FROM sessions WHERE {_VISIBLE}"
_IS_VISIBLE: Final = f"SELECT 1 FROM sessions WHERE id = %(session)s AND {_VISIBLE}"
_MESSAGES: Final = """
    SELECT id, role, content, created_at, blocks::text, turn_id FROM messages
    WHERE session_id = %(session)s ORDER BY position LIMIT %(limit)s OFFSET %(offset)s
"""
_COUNT_MESSAGES: Final = "SELECT count(*) FROM messages WHERE session_id = %(session)s"
_TURN: Final = f"""
    SELECT t.id, t.session_id, t.status, t.attempt, t.position, t.correlation_id, t.user_message_id, t.message_id,
           t.usage::text, t.reply::text, t.error::text, t.created_at, t.started_at, t.finished_at
    FROM turns t
    WHERE t.id = %(turn)s AND t.session_id = %(session)s
      AND EXISTS (SELECT FROM sessions WHERE id = %(session)s AND {_VISIBLE})
"""
_KNOWS: Final = """
    SELECT EXISTS (SELECT FROM turns WHERE id = %(id)s AND company_id = %(company)s)
        OR EXISTS (SELECT FROM outbox WHERE causation_id = %(id)s AND terminal AND company_id = %(company)s)
"""


class PostgresSessionReads:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def sessions(self, caller: Identity, *, limit: int, offset: int) -> SessionPage:
        parameters = {**_caller(caller), "limit": limit, "offset": offset}
        async with self._database.connection() as connection:
            rows = await (await connection.execute(_SESSIONS, parameters)).fetchall()
            total = await _count(connection, _COUNT_SESSIONS, parameters)
        page = [_session(row) for row in rows]
        return SessionPage(sessions=page, total=total, has_more=offset + len(page) < total)

    async def session(self, session_id: str, caller: Identity) -> Session | None:
        row = await self._row(_SESSION, {**_caller(caller), "session": session_id})
        return None if row is None else _session(row)

    async def messages(self, session_id: str, caller: Identity, *, limit: int, offset: int) -> MessagePage | None:
        parameters = {**_caller(caller), "session": session_id, "limit": limit, "offset": offset}
        async with self._database.connection() as connection:
            if await (await connection.execute(_IS_VISIBLE, parameters)).fetchone() is None:
                return None
            rows = await (await connection.execute(_MESSAGES, parameters)).fetchall()
            total = await _count(connection, _COUNT_MESSAGES, parameters)
        page = [_message(row) for row in rows]
        return MessagePage(messages=page, total=total, has_more=offset + len(page) < total)

    async def turn(self, session_id: str, turn_id: str, caller: Identity) -> Turn | None:
        row = await self._row(_TURN, {**_caller(caller), "session": session_id, "turn": turn_id})
        return None if row is None else _turn(row)

    async def knows_command(self, command_id: str, company_id: str) -> bool:
        row = await self._row(_KNOWS, {"id": command_id, "company": company_id})
        return row is not None and bool(row[0])

    async def _row(self, query: str, parameters: dict[str, Any]) -> tuple[Any, ...] | None:
        async with self._database.connection() as connection:
            return await (await connection.execute(query, parameters)).fetchone()


def _caller(caller: Identity) -> dict[str, Any]:
    return {"company": caller.company_id, "user": caller.user_id, "everyone": caller.reads_company}


async def _count(connection: Connection, query: str, parameters: dict[str, Any]) -> int:
    row = await (await connection.execute(query, parameters)).fetchone()
    return 0 if row is None else int(row[0])


def _session(row: tuple[Any, ...]) -> Session:
    return Session(
        session_id=row[0],
        config_hash=row[1],
        created_at=row[2],
        status=row[3],
        agent_config=orjson.loads(row[4]),
        agent_id=row[5],
        owner_id=row[6],
    )


def _message(row: tuple[Any, ...]) -> Message:
    blocks = [{"type": "text", "text": row[2]}] if row[4] is None else orjson.loads(row[4])
    return Message(id=row[0], role=row[1], content=row[2], timestamp=row[3], content_blocks=blocks, turn_id=row[5])


def _turn(row: tuple[Any, ...]) -> Turn:
    usage, reply, error = (None if text is None else orjson.loads(text) for text in row[8:11])
    return Turn(
        turn_id=row[0],
        session_id=row[1],
        status=row[2],
        attempt=row[3],
        position=row[4],
        correlation_id=row[5],
        user_message_id=row[6],
        message_id=row[7],
        usage=usage,
        reply=reply,
        error=error,
        created_at=row[11],
        started_at=row[12],
        finished_at=row[13],
    )
