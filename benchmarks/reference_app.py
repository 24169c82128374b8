"""The handwritten app that benchmarks compare the service with: `python -m benchmarks.reference_app`.

An afternoon's work: a single FastAPI process that uses pydantic-ai and keeps the history in PostgreSQL. The app has
none of the service's guarantees: a crash loses turns, a retried request runs twice, and concurrent requests of a
session aren't ordered. It has no authentication, queue or events. Prints the port when it's ready.
"""

import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final
from uuid import UUID, uuid4

import asyncpg
import httpx
import orjson
import uvicorn
from fastapi import FastAPI, Header, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel

_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS sessions (
        id uuid PRIMARY KEY, tool text NOT NULL, model text NOT NULL, instructions text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE TABLE IF NOT EXISTS turns (
        session_id uuid NOT NULL REFERENCES sessions, id uuid NOT NULL, position bigint GENERATED ALWAYS AS IDENTITY,
        messages jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (session_id, position)
    );
"""
_CREATE: Final = "INSERT INTO sessions (id, tool, model, instructions) VALUES ($1, $2, $3, $4)"
# Returns a single row, because the driver spends time on each row.
_LOAD: Final = """
    SELECT tool, model, instructions,
           (SELECT jsonb_agg(messages ORDER BY position) FROM turns WHERE session_id = sessions.id)
    FROM sessions WHERE id = $1
"""
_ADD: Final = "INSERT INTO turns (id, session_id, messages) VALUES ($1, $2, $3)"
_ARITHMETIC: Final = frozenset("0123456789. +-*/()")


class SessionBody(BaseModel):
    model: str
    instructions: str = ""
    tool: str = ""


class SessionReply(BaseModel):
    session_id: UUID


class ExecuteBody(BaseModel):
    content: str


class Answer(BaseModel):
    content: str
    tool_calls: list[dict[str, str]]


class ExecuteReply(BaseModel):
    message_id: UUID
    response: Answer


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session. ``turns`` contains each turn's question and answer, oldest first."""

    tool: str
    model: str
    instructions: str
    turns: list[tuple[str, str]]

    @property
    def agent(self) -> Agent[object, str]:
        return _agent(self.tool, self.model)

    @property
    def options(self) -> dict[str, Any]:
        return {"message_history": list(self._messages()), "instructions": self.instructions}

    def _messages(self) -> Iterator[ModelMessage]:
        for question, answer in self.turns:
            yield ModelRequest(parts=[UserPromptPart(question)])
            yield ModelResponse(parts=[TextPart(answer)])


class History:
    """The sessions and their turns in PostgreSQL."""

    pool: asyncpg.Pool

    @asynccontextmanager
    async def connected(self, database_url: str) -> AsyncIterator[None]:
        async with asyncpg.create_pool(database_url, min_size=4, max_size=16, init=_read_json) as self.pool:
            await self.pool.execute(_SCHEMA)
            yield

    async def create(self, body: SessionBody) -> UUID:
        session = uuid4()
        await self.pool.execute(_CREATE, session, body.tool, body.model, body.instructions)
        return session

    async def load(self, session: UUID) -> Conversation:
        row = await self.pool.fetchrow(_LOAD, session)
        if row is None:
            raise HTTPException(404, "the session doesn't exist")
        tool, model, instructions, turns = row
        return Conversation(tool, model, instructions, turns or [])

    async def add(self, session: UUID, question: str, answer: str) -> UUID:
        """Stores a turn and returns its ID."""
        turn = uuid4()
        await self.pool.execute(_ADD, turn, session, [question, answer])
        return turn


async def _read_json(connection: asyncpg.Connection) -> None:
    encode = lambda value: orjson.dumps(value).decode()  # noqa: E731
    await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=encode, decoder=orjson.loads)


def create_app(database_url: str, ready: Callable[[], None]) -> FastAPI:
    history = History()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with history.connected(database_url):
            ready()
            yield

    app = FastAPI(title="Reference app", lifespan=lifespan)

    @app.post("/sessions", status_code=201)
    async def create_session(body: SessionBody) -> SessionReply:
        return SessionReply(session_id=await history.create(body))

    @app.post("/sessions/{session_id}/execute", response_model=ExecuteReply)
    async def execute(session_id: UUID, body: ExecuteBody, accept: Annotated[str, Header()] = "") -> Any:
        conversation = await history.load(session_id)
        if "text/event-stream" in accept:
            events = _stream(history, session_id, conversation, body.content)
            return StreamingResponse(events, media_type="text/event-stream")
        result = await conversation.agent.run(body.content, **conversation.options)
        message_id = await history.add(session_id, body.content, result.output)
        answer = Answer(content=result.output, tool_calls=_tool_calls(result.new_messages()))
        return ExecuteReply(message_id=message_id, response=answer)

    return app


async def _stream(history: History, session: UUID, conversation: Conversation, prompt: str) -> AsyncIterator[bytes]:
    async with conversation.agent.run_stream(prompt, **conversation.options) as result:
        answer = ""
        # Without debouncing, which would delay the first token by a tenth of a second.
        async for text in result.stream_text(delta=True, debounce_by=None):
            answer += text
            yield _event("delta", {"text": text})
        calls = _tool_calls(result.new_messages())
    message_id = await history.add(session, prompt, answer)
    yield _event("completed", {"message_id": message_id, "response": {"content": answer, "tool_calls": calls}})


def _event(name: str, data: dict[str, Any]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


def _tool_calls(messages: list[ModelMessage]) -> list[dict[str, str]]:
    return [
        {"id": part.tool_call_id, "name": part.tool_name, "arguments": part.args_as_json_str()}
        for message in messages
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]


@lru_cache(maxsize=64)
def _agent(tool: str, model: str) -> Agent[object, str]:
    """OPENAI_BASE_URL and OPENAI_API_KEY specify the model's server. If ``tool`` is empty, the agent has no tool."""
    return Agent(OpenAIChatModel(model), tools=[_TOOLS[tool]] if tool else [])


def _calculator(expression: str) -> str:
    """Compute an arithmetic expression.

    Args:
        expression: for example (2 + 3) * 4
    """
    if not set(expression) <= _ARITHMETIC:
        raise ValueError("only numbers, + - * / and brackets")
    return str(eval(expression))


async def _lookup(order: int) -> str:
    """Look up an order.

    Args:
        order: its number
    """
    answer = await _client().get(os.environ["REFERENCE_LOOKUP_URL"], params={"order": order})
    return answer.raise_for_status().text


@lru_cache(maxsize=1)
def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=30)


_TOOLS: Final = {
    "calculator": Tool(_calculator, name="calculator"),
    "bench.lookup": Tool(_lookup, name="bench_lookup"),
}


def main() -> None:
    # New connections wait in the socket's backlog until the app is ready.
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        app = create_app(os.environ["REFERENCE_DATABASE_URL"], lambda: print(listener.getsockname()[1], flush=True))
        config = uvicorn.Config(app, loop="uvloop", http="httptools", log_level="warning", access_log=False)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
