"""Reads the session's agent, the history, and the steps of earlier attempts."""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from libs.json_text import read_json
from libs.persistence import Database
from services.runtime.domain.agents import AgentSpec
from services.runtime.domain.conversation import Message
from services.runtime.domain.conversation_json import message_from_row, tool_call_from_json
from services.runtime.domain.ports import SessionAgent
from services.runtime.domain.steps import Step, calls_made
from services.runtime.domain.waits import call_hash

_AGENT: Final = "SELECT config::text, config_hash, agent_id FROM sessions WHERE id = %s"
# Messages that a fork copied don't belong to a turn of the forked session.
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
    SELECT number, kind, payload::text, usage::text FROM steps WHERE turn_id = %s
    ORDER BY number, call_id = '' DESC, created_at
"""
_ALLOWED: Final = "SELECT call_id, payload::text FROM waits WHERE turn_id = %s AND decision = 'approve'"


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

    async def steps(self, turn_id: str) -> list[Step]:
        rows = await self._database.execute(_STEPS, (turn_id,))
        return [
            Step.from_row(number, kind, read_json(payload), None if usage is None else read_json(usage))
            for number, kind, payload, usage in rows
        ]

    async def allowed_calls(self, turn_id: str) -> dict[str, str]:
        # A hash identifies what the approver was shown.
        rows = await self._database.execute(_ALLOWED, (turn_id,))
        return {call_id: call_hash(tool_call_from_json(read_json(payload)["tool_call"])) for call_id, payload in rows}


def _message(row: tuple[Any, ...]) -> Message:
    _, role, content, blocks, _ = row
    return message_from_row(role, content, None if blocks is None else read_json(blocks))


def _calls_made(steps: str | None) -> tuple[Message, ...]:
    """Returns the messages with the tool calls and results that precede a reply."""
    rows = [] if steps is None else read_json(steps)
    return calls_made([Step.from_row(*row) for row in rows if row[1] != "model" or row[2].get("tool_calls")])
