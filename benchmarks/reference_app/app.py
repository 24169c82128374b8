"""The HTTP API: create a session, execute a message in it, plain or streamed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import FastAPI, Header, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from benchmarks.reference_app.agents import agent, tool_calls
from benchmarks.reference_app.history import Conversation, History

_CONNECTIONS = 16


class SessionBody(BaseModel):
    model: str
    instructions: str = ""
    tool: str = ""


class SessionReply(BaseModel):
    session_id: UUID


class ExecuteBody(BaseModel):
    content: str


class Message(BaseModel):
    role: str
    content: str


class Answer(BaseModel):
    content: str
    tool_calls: list[dict[str, str]]


class ExecuteReply(BaseModel):
    message_id: UUID
    response: Answer


def create_app(database_url: str) -> FastAPI:
    history = History(database_url, connections=_CONNECTIONS)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with history.connected():
            yield

    app = FastAPI(title="Reference app", lifespan=lifespan)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/sessions", status_code=201)
    async def create_session(body: SessionBody) -> SessionReply:
        return SessionReply(session_id=await history.create(body.tool, body.model, body.instructions))

    @app.post("/sessions/{session_id}/execute", response_model=ExecuteReply)
    async def execute(session_id: UUID, body: ExecuteBody, accept: Annotated[str, Header()] = "") -> Any:
        conversation = await history.load(session_id)
        if conversation is None:
            raise HTTPException(404, "no such session")
        if "text/event-stream" in accept:
            events = _stream(history, session_id, conversation, body.content)
            return StreamingResponse(events, media_type="text/event-stream")
        result = await agent(conversation.tool, conversation.model).run(
            body.content, message_history=conversation.messages(), instructions=conversation.instructions
        )
        message_id = await history.add(session_id, body.content, result.output)
        answer = Answer(content=result.output, tool_calls=tool_calls(result.new_messages()))
        return ExecuteReply(message_id=message_id, response=answer)

    @app.get("/sessions/{session_id}/messages")
    async def messages(session_id: UUID) -> list[Message]:
        conversation = await history.load(session_id)
        if conversation is None:
            raise HTTPException(404, "no such session")
        return [
            Message(role=role, content=content)
            for turn in conversation.turns
            for role, content in zip(("user", "assistant"), turn, strict=True)
        ]

    return app


async def _stream(history: History, session: UUID, conversation: Conversation, prompt: str) -> AsyncIterator[bytes]:
    async with agent(conversation.tool, conversation.model).run_stream(
        prompt, message_history=conversation.messages(), instructions=conversation.instructions
    ) as result:
        answer = ""
        # Without debouncing, which would hold the first token back for a tenth of a second.
        async for text in result.stream_text(delta=True, debounce_by=None):
            answer += text
            yield _event("delta", {"text": text})
        calls = tool_calls(result.new_messages())
    message_id = await history.add(session, prompt, answer)
    yield _event("completed", {"message_id": message_id, "response": {"content": answer, "tool_calls": calls}})


def _event(name: str, data: dict[str, Any]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"
