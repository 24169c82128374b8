"""Sessions and their messages in PostgreSQL: a row for each turn, a statement for each read and write."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

import asyncpg
import orjson
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
_CREATE: Final = "INSERT INTO sessions (id, tool, model, instructions) VALUES ($1, $2, $3, $4)"
# One row, because each costs the driver and another round trip costs most.
_LOAD: Final = """
SELECT tool, model, instructions,
       (SELECT jsonb_agg(messages ORDER BY position) FROM turns WHERE session_id = sessions.id)
FROM sessions WHERE id = $1
"""
_ADD: Final = "INSERT INTO turns (id, session_id, messages) VALUES ($1, $2, $3)"


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
    def __init__(self, database_url: str, *, connections: int) -> None:
        self._database_url = database_url
        self._connections = connections

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """The connections exist, and the tables, within the block."""
        async with asyncpg.create_pool(
            self._database_url, min_size=4, max_size=self._connections, init=_read_json
        ) as self._pool:
            await self._pool.execute(_SCHEMA)
            yield

    async def create(self, tool: str, model: str, instructions: str) -> UUID:
        session = uuid4()
        await self._pool.execute(_CREATE, session, tool, model, instructions)
        return session

    async def load(self, session: UUID) -> Conversation | None:
        row = await self._pool.fetchrow(_LOAD, session)
        if row is None:
            return None
        tool, model, instructions, turns = row
        return Conversation(tool, model, instructions, turns or [])

    async def add(self, session: UUID, question: str, answer: str) -> UUID:
        """Store a turn's two messages together; returns the id of its row."""
        turn = uuid4()
        await self._pool.execute(_ADD, turn, session, [question, answer])
        return turn


async def _read_json(connection: asyncpg.Connection) -> None:
    await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=_to_json, decoder=orjson.loads)


def _to_json(value: object) -> str:
    return orjson.dumps(value).decode()
