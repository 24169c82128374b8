"""Reads the agent loop's input: the session's agent, its history, the steps of earlier attempts."""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from libs.json_text import read_json
from libs.persistence import Database
from services.runtime.domain.agents import AgentSpec, RecordedAnswer, RecordedResult, RecordedStep, calls_made
from services.runtime.domain.conversation import JsonObject, Message
from services.runtime.domain.conversation_json import (
    answer_from_json,
    message_from_row,
    tool_result_from_json,
    toolsets_from_json,
)
from services.runtime.domain.ports import SessionAgent

_AGENT: Final = "SELECT config::text, config_hash, agent_id FROM sessions WHERE id = %s"
# The messages that a fork began with have no turn in it.
_MESSAGES: Final = """
    SELECT m.position / 2, m.role, m.content, m.blocks::text,
           CASE WHEN m.role = 'assistant' THEN (
               SELECT json_agg(json_build_array(s.number, s.kind, s.payload)
                               ORDER BY s.number, s.call_id = '' DESC, s.created_at)::text
               FROM steps s WHERE s.turn_id = m.turn_id) END
    FROM messages m LEFT JOIN turns t ON t.id = m.turn_id AND t.session_id = m.session_id
    WHERE m.session_id = %s AND m.position BETWEEN %s AND %s AND t.status IS DISTINCT FROM 'failed'
    ORDER BY m.position
"""
_LINEAGE: Final = "SELECT lineage FROM sessions WHERE id = %s"
_STEPS: Final = """
    SELECT number, kind, payload::text FROM steps WHERE turn_id = %s ORDER BY number, call_id = '' DESC, created_at
"""

_ALLOWED: Final = "SELECT call_id, call_hash FROM actions WHERE turn_id = %s AND decision = 'approve'"


class PostgresConversations:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def agent(self, session_id: str) -> SessionAgent | None:
        rows = await self._database.execute(_AGENT, (session_id,))
        return SessionAgent(AgentSpec.from_config(orjson.loads(rows[0][0])), *rows[0][1:]) if rows else None

    async def lineage(self, session_id: str) -> Sequence[str]:
        rows = await self._database.execute(_LINEAGE, (session_id,))
        return rows[0][0] or () if rows else ()

    async def messages(self, session_id: str, after: int, through: int) -> list[tuple[int, Message]]:
        rows = await self._database.execute(_MESSAGES, (session_id, 2 * after + 2, 2 * through + 1))
        return [(row[0], message) for row in rows for message in (*_calls_made(row[4]), _message(row))]

    async def steps(self, turn_id: str) -> list[RecordedStep]:
        return [_step(row) for row in await self._database.execute(_STEPS, (turn_id,))]

    async def allowed_calls(self, turn_id: str) -> dict[str, str]:
        return {row[0]: row[1] for row in await self._database.execute(_ALLOWED, (turn_id,))}


def _message(row: tuple[Any, ...]) -> Message:
    _, role, content, blocks, _ = row
    return message_from_row(role, content, None if blocks is None else read_json(blocks))


def _calls_made(steps: str | None) -> tuple[Message, ...]:
    """The calls of a reply's turn. An answer without calls may have nothing but the turn's toolsets."""
    rows = [] if steps is None else read_json(steps)
    return calls_made([_recorded(*row) for row in rows if row[1] != "answer" or row[2].get("tool_calls")])


def _step(row: tuple[Any, ...]) -> RecordedStep:
    number, kind, payload = row
    return _recorded(number, kind, read_json(payload))


def _recorded(number: int, kind: str, data: JsonObject) -> RecordedStep:
    if kind == "answer":
        return RecordedAnswer(number, answer_from_json(data), toolsets_from_json(data), tuple(data.get("problems", ())))
    return RecordedResult(number, tool_result_from_json(data))
