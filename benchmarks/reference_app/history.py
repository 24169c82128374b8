"""Sessions and their messages in PostgreSQL: a row for each turn, a statement for each read and write."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

import orjson
from psycopg.types.json import Jsonb, set_json_dumps, set_json_loads
from psycopg_pool import AsyncConnectionPool
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sessions (
    id uuid PRIMARY KEY,
    tool text NOT NULL,
    model text NOT NULL,
    instructions text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS turns (
    session_id uuid NOT NULL REFERENCES sessions,
    id uuid NOT NULL,
    position bigint GENERATED ALWAYS AS IDENTITY,
    messages jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, position)
);
"""
_CREATE: Final = "INSERT INTO sessions (id, tool, model, instructions) VALUES (%s, %s, %s, %s)"
# One row, because each costs the driver and another round trip costs most.
_LOAD: Final = """
SELECT tool, model, instructions,
       (SELECT jsonb_agg(messages ORDER BY position) FROM turns WHERE session_id = sessions.id)
FROM sessions WHERE id = %s
"""
_ADD: Final = "INSERT INTO turns (id, session_id, messages) VALUES (%s, %s, %s)"

set_json_loads(orjson.loads)
set_json_dumps(orjson.dumps)


@dataclass(frozen=True, slots=True)
class Conversation:
    tool: str
    model: str
    instructions: str
    turns: list[tuple[str, str]]
    """Question and answer of each, oldest first."""

    def messages(self) -> list[ModelMessage]:
        return list(self._messages())

    def _messages(self) -> Iterator[ModelMessage]:
        for question, answer in self.turns:
            yield ModelRequest(parts=[UserPromptPart(question)])
            yield ModelResponse(parts=[TextPart(answer)])


class History:
    def __init__(self, pool: AsyncConnectionPool) -> None:
        self._pool = pool

    async def create_schema(self) -> None:
        async with self._pool.connection() as connection:
            await connection.execute(_SCHEMA)

    async def create(self, tool: str, model: str, instructions: str) -> UUID:
        session = uuid4()
        async with self._pool.connection() as connection:
            await connection.execute(_CREATE, (session, tool, model, instructions))
        return session

    async def load(self, session: UUID) -> Conversation | None:
        async with self._pool.connection() as connection:
            row = await (await connection.execute(_LOAD, (session,))).fetchone()
        if row is None:
            return None
        tool, model, instructions, turns = row
        return Conversation(tool, model, instructions, turns or [])

    async def add(self, session: UUID, question: str, answer: str) -> UUID:
        """Store a turn's two messages together; returns the id of its row."""
        turn = uuid4()
        async with self._pool.connection() as connection:
            await connection.execute(_ADD, (turn, session, Jsonb([question, answer])))
        return turn
