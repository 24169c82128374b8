"""Sessions and their messages in PostgreSQL."""

from dataclasses import dataclass
from uuid import UUID, uuid4

from psycopg.rows import args_row
from psycopg_pool import AsyncConnectionPool
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart

_SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
    id uuid PRIMARY KEY,
    tool text NOT NULL,
    model text NOT NULL,
    instructions text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS messages (
    id uuid PRIMARY KEY,
    position bigint GENERATED ALWAYS AS IDENTITY,
    session_id uuid NOT NULL REFERENCES sessions,
    role text NOT NULL,
    content text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS messages_of_session ON messages (session_id, position);
"""
# One statement for both, because a round trip costs more than an outer join.
_LOAD = """
SELECT s.tool, s.model, s.instructions, m.role, m.content
FROM sessions s LEFT JOIN messages m ON m.session_id = s.id
WHERE s.id = %s ORDER BY m.position
"""
_ADD = "INSERT INTO messages (id, session_id, role, content) VALUES (%s, %s, 'user', %s), (%s, %s, 'assistant', %s)"


@dataclass(frozen=True)
class Row:
    tool: str
    model: str
    instructions: str
    role: str | None
    content: str | None


@dataclass(frozen=True)
class Conversation:
    tool: str
    model: str
    instructions: str
    messages: list[ModelMessage]


class History:
    def __init__(self, pool: AsyncConnectionPool) -> None:
        self._pool = pool

    async def create_schema(self) -> None:
        async with self._pool.connection() as connection:
            await connection.execute(_SCHEMA)

    async def create(self, tool: str, model: str, instructions: str) -> UUID:
        session = uuid4()
        async with self._pool.connection() as connection:
            await connection.execute(
                "INSERT INTO sessions (id, tool, model, instructions) VALUES (%s, %s, %s, %s)",
                (session, tool, model, instructions),
            )
        return session

    async def load(self, session: UUID) -> Conversation | None:
        async with self._pool.connection() as connection, connection.cursor(row_factory=args_row(Row)) as cursor:
            rows = await (await cursor.execute(_LOAD, (session,))).fetchall()
        if not rows:
            return None
        first = rows[0]
        messages = [_message(row.role, row.content) for row in rows if row.role and row.content is not None]
        return Conversation(first.tool, first.model, first.instructions, messages)

    async def add(self, session: UUID, prompt: str, answer: str) -> UUID:
        """Store a turn's two messages together; returns the id of the answer."""
        question_id, answer_id = uuid4(), uuid4()
        async with self._pool.connection() as connection:
            await connection.execute(_ADD, (question_id, session, prompt, answer_id, session, answer))
        return answer_id

    async def texts(self, session: UUID) -> list[tuple[str, str]]:
        """Role and content of each message, oldest first."""
        async with self._pool.connection() as connection:
            statement = "SELECT role, content FROM messages WHERE session_id = %s ORDER BY position"
            return list(await (await connection.execute(statement, (session,))).fetchall())


def _message(role: str, content: str) -> ModelMessage:
    if role == "user":
        return ModelRequest(parts=[UserPromptPart(content)])
    return ModelResponse(parts=[TextPart(content)])
