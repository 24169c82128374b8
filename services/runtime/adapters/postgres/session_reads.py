"""Reads sessions, messages and turns for callers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from libs.contracts.identity import Identity
from libs.contracts.resources.actions import ActionPage, OpenAction
from libs.contracts.resources.messages import Message, MessagePage
from libs.contracts.resources.sessions import Session, SessionPage
from libs.contracts.resources.turns import ActionKind, BlockedBy, RequiredAction, Turn, TurnPage, TurnStatus
from libs.contracts.timestamps import parse_time
from libs.json_text import read_json
from libs.persistence import NEWEST_FIRST, Connection, Database, Order, fetch_page, fetch_records, fetch_value
from services.runtime.domain.turns import whole_reply

_VISIBLE: Final = "company_id = %(company)s AND (%(everyone)s OR owner_id = %(user)s)"
_SESSION_COLUMNS: Final = """
    id AS session_id, config_hash, created_at, status, config::text AS agent_config, agent_id, owner_id,
    lineage[1] AS forked_from, metadata::text
"""
_SESSION: Final = f"SELECT {_SESSION_COLUMNS} FROM sessions WHERE id = %(session)s AND {_VISIBLE}"
_IS_VISIBLE: Final = f"SELECT 1 FROM sessions WHERE id = %(session)s AND {_VISIBLE}"
_MESSAGE_COLUMNS: Final = """
    id, role, content, created_at AS timestamp, blocks::text AS content_blocks, nullif(turn_id, '') AS turn_id
"""
_IN_ORDER: Final = Order(("position",), ("bigint",), descending=False)
_OF_TURN: Final = " AND turn_id = %(turn)s"
LEFT_OUT_TEXT: Final = """
    CASE WHEN {turn}.reply IS NOT NULL THEN (
        SELECT m.content FROM messages m
        WHERE m.session_id = {turn}.session_id AND m.position = 2 * {turn}.position + 1) END"""
"""Selects the reply's text for the turn ``{turn}``, because the stored reply omits it."""
# A correlated subquery for waiting turns, since other turns have no open waits.
_REQUIRED_ACTIONS: Final = """(
    SELECT json_agg(json_build_object('action_id', w.id, 'kind', w.kind, 'payload', w.payload,
                                      'expires_at', w.expires_at) ORDER BY w.created_at, w.id)
    FROM waits w WHERE w.turn_id = {turn}.id AND w.state = 'open')"""
_BLOCKED_BY: Final = f"""
    json_build_object('turn_id', b.id, 'required_actions', {_REQUIRED_ACTIONS.format(turn="b")})
    FROM turns b WHERE b.status = 'waiting'
"""
_BLOCKED_SESSIONS: Final = f"SELECT b.session_id, {_BLOCKED_BY} AND b.session_id = ANY(%s)"
_TURN_COLUMNS: Final = f"""
    id AS turn_id, session_id, status, attempt, position, correlation_id, user_message_id, message_id,
           usage::text, reply::text, {LEFT_OUT_TEXT.format(turn="turns")} AS reply_text,
           error::text, (request -> 'options')::text AS options, created_at, started_at, finished_at,
           CASE WHEN status = 'waiting' THEN {_REQUIRED_ACTIONS.format(turn="turns")} END::text AS required_actions,
           CASE WHEN status = 'queued' THEN (
               SELECT {_BLOCKED_BY} AND b.session_id = turns.session_id) END::text AS blocked_by,
           (SELECT (s.payload -> 'toolsets')::text FROM steps s
            WHERE s.turn_id = turns.id AND s.number = 1 AND s.call_id = '') AS toolsets
"""
_ONE_TURN: Final = f"SELECT {_TURN_COLUMNS} FROM turns WHERE id = %(turn)s"
_TURN: Final = f"""
    {_ONE_TURN} AND session_id = %(session)s
      AND EXISTS (SELECT FROM sessions WHERE id = %(session)s AND {_VISIBLE})
"""
_TURN_ANYWHERE: Final = f"{_ONE_TURN} AND EXISTS (SELECT FROM sessions WHERE id = turns.session_id AND {_VISIBLE})"
_CHANGED: Final = "coalesce(finished_at, started_at, created_at)"
_SESSIONS_OF_AGENT: Final = f"SELECT id FROM sessions WHERE {_VISIBLE} AND listed AND agent_id = %(agent)s"
_TURNS_OF_AGENT: Final = f"""
    FROM turns WHERE session_id IN ({_SESSIONS_OF_AGENT} {{of_session}})
      AND (%(status)s::text IS NULL OR status = %(status)s)
      AND (%(changed_after)s::timestamptz IS NULL OR {_CHANGED} > %(changed_after)s)
"""
_CHANGED_LAST_FIRST: Final = Order((_CHANGED, "id"), ("timestamptz", "text"))
_ACTION_COLUMNS: Final = "id AS action_id, session_id, turn_id, kind, payload::text, expires_at, created_at"
_OLDEST_FIRST: Final = Order(("created_at", "id"), ("timestamptz", "text"), descending=False)
_FILTERS: Final = {"session_id": "session", "kind": "kind"}
_KNOWS: Final = """
    SELECT EXISTS (SELECT FROM turns WHERE id = %(id)s AND company_id = %(company)s)
        OR EXISTS (SELECT FROM outbox WHERE causation_id = %(id)s AND terminal AND company_id = %(company)s)
"""
Row = dict[str, Any]


class PostgresSessionReads:
    """Reads sessions for a caller. Anything that the caller may not see is returned as None, and omitted from lists.

    Query columns have the names of the API's fields.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def sessions(self, caller: Identity, *, limit: int, offset: int, cursor: str | None = None) -> SessionPage:
        """Returns the caller's sessions, or all of the company's if the caller may read them, newest first."""
        source = f"FROM sessions WHERE {_visible(caller)} AND listed"
        async with self._database.connection() as connection:
            page = await fetch_page(
                connection, _SESSION_COLUMNS, source, NEWEST_FIRST, visible_to(caller),
                limit=limit, offset=offset, cursor=cursor,
            )  # fmt: skip
        return SessionPage(sessions=page.map(_session).items, **page.facts)

    async def session(self, session_id: str, caller: Identity) -> Session | None:
        rows = await self._database.records(_SESSION, {**visible_to(caller), "session": session_id})
        return _session(rows[0]) if rows else None

    async def messages(
        self,
        session_id: str,
        caller: Identity,
        *,
        limit: int,
        offset: int,
        turn_id: str | None = None,
        cursor: str | None = None,
    ) -> MessagePage | None:
        """Returns the session's messages, or those of one turn, oldest first. A reply directly follows its question."""
        parameters = {**visible_to(caller), "session": session_id, "turn": turn_id}
        of_turn = "" if turn_id is None else _OF_TURN
        async with self._database.connection() as connection:
            if not await fetch_value(connection, _IS_VISIBLE, parameters):
                return None
            page = await fetch_page(
                connection, _MESSAGE_COLUMNS, f"FROM messages WHERE session_id = %(session)s{of_turn}", _IN_ORDER,
                parameters, limit=limit, offset=offset, cursor=cursor, count=None,
            )  # fmt: skip
        return MessagePage(messages=page.map(message_of).items, **page.facts)

    async def turn(self, session_id: str | None, turn_id: str, caller: Identity) -> Turn | None:
        """Returns the turn, which must belong to the session unless ``session_id`` is None."""
        query = _TURN_ANYWHERE if session_id is None else _TURN
        rows = await self._database.records(query, {**visible_to(caller), "session": session_id, "turn": turn_id})
        return _turn(rows[0]) if rows else None

    async def turns(
        self,
        caller: Identity,
        *,
        agent_id: str,
        session_id: str | None,
        status: TurnStatus | None,
        changed_after: datetime | None,
        limit: int,
        cursor: str | None = None,
    ) -> TurnPage:
        """Returns the agent's turns in listed sessions, most recently changed first."""
        parameters = {
            **visible_to(caller),
            "agent": agent_id,
            "session": session_id,
            "status": status,
            "changed_after": changed_after,
        }
        source = _TURNS_OF_AGENT.format(of_session="" if session_id is None else "AND id = %(session)s")
        async with self._database.connection() as connection:
            page = await fetch_page(
                connection, _TURN_COLUMNS, source, _CHANGED_LAST_FIRST, parameters, limit=limit, cursor=cursor
            )
        return TurnPage(turns=page.map(_turn).items, **page.facts)

    async def actions(
        self,
        caller: Identity,
        *,
        kind: ActionKind | None,
        session_id: str | None,
        limit: int,
        offset: int,
        cursor: str | None = None,
    ) -> ActionPage:
        """Returns the open actions, oldest first."""
        parameters = {**visible_to(caller), "kind": kind, "session": session_id}
        async with self._database.connection() as connection:
            page = await fetch_page(
                connection, _ACTION_COLUMNS, f"FROM waits WHERE {_open(parameters)}", _OLDEST_FIRST, parameters,
                limit=limit, offset=offset, cursor=cursor,
            )  # fmt: skip
        actions = page.map(lambda row: OpenAction(**row, **read_json(row["payload"])))
        return ActionPage(actions=actions.items, **page.facts)

    async def knows_command(self, command_id: str, company_id: str) -> bool:
        """Returns whether the company's command became a turn or was rejected."""
        return bool(await self._database.value(_KNOWS, {"id": command_id, "company": company_id}))


async def turn_by_id(connection: Connection, turn_id: str) -> Turn:
    """Returns a turn that the caller's transaction has already found, without checking permissions."""
    return _turn((await fetch_records(connection, _ONE_TURN, {"turn": turn_id}))[0])


async def blocked_sessions(connection: Connection, session_ids: Sequence[str]) -> dict[str, BlockedBy]:
    """Returns the waiting turns that block these sessions, by session ID."""
    found = await connection.execute(_BLOCKED_SESSIONS, (session_ids,))
    return {session_id: _blocked_by(turn) for session_id, turn in await found.fetchall()}


def _open(wanted: Row) -> str:
    """Returns the WHERE clause for open waits, with only the requested conditions, so that an index can be used."""
    conditions = ["state = 'open'", "company_id = %(company)s"]
    conditions += [] if wanted["everyone"] else ["owner_id = %(user)s"]
    conditions += [f"{column} = %({name})s" for column, name in _FILTERS.items() if wanted[name] is not None]
    return " AND ".join(conditions)


def _visible(caller: Identity) -> str:
    """Returns the condition ``_VISIBLE`` for this caller, so that the query plan fits the caller's permissions."""
    return "company_id = %(company)s" + ("" if caller.reads_company else " AND owner_id = %(user)s")


def visible_to(caller: Identity) -> Row:
    """Returns the parameters of the conditions on what a caller may see."""
    return {"company": caller.company_id, "user": caller.user_id, "everyone": caller.reads_company}


def _session(row: Row) -> Session:
    return Session(**_decoded(row, "agent_config", "metadata"))


def _turn(row: Row) -> Turn:
    actions = _actions(read_json(row.pop("required_actions") or "[]"))
    blocked_by = row.pop("blocked_by")
    toolsets = read_json(row.pop("toolsets") or "[]")
    text = row.pop("reply_text")
    decoded = _decoded(row, "usage", "error", "options")
    if row["reply"] is not None:
        decoded["reply"] = whole_reply(row["reply"], text, decoded)
    blocking = None if blocked_by is None else _blocked_by(read_json(blocked_by))
    return Turn(**decoded, required_actions=actions, blocked_by=blocking, toolsets=toolsets)


def _blocked_by(turn: Row) -> BlockedBy:
    return BlockedBy(turn_id=turn["turn_id"], required_actions=_actions(turn["required_actions"] or []))


def _actions(stored: list[Row]) -> list[RequiredAction]:
    return [
        RequiredAction(**{**wait, **wait["payload"], "expires_at": parse_time(wait["expires_at"])}) for wait in stored
    ]


def message_of(row: Row) -> Message:
    stored = row["content_blocks"]
    blocks = [{"type": "text", "text": row["content"]}] if stored is None else read_json(stored)
    if blocks and blocks[0]["type"] == "tool_result":
        # Stored with the user's role, as sent to models.
        row |= {"role": "tool", "content": blocks[0]["output"]}
    return Message(**{**row, "content_blocks": blocks})


def _decoded(row: Row, *columns: str) -> Row:
    return {**row, **{column: read_json(row[column]) for column in columns if row[column] is not None}}
