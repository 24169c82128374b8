"""Calls of the public API, as tests make them."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson

from tests.support.waiting import until

MODEL = "openai:stub"
# Of who waits for a turn while parts of the stack are replaced, for which the usual two minutes can be too short.
PATIENT = "wait=600"
_REFUSALS_TO_REPEAT = (429, 503, 504)


def unique(prefix: str = "e2e") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def configuration(model: str = MODEL, **fields: Any) -> dict[str, Any]:
    """A valid agent configuration; a react agent when it has tools."""
    kind = "react_agent" if fields.get("tools") else "llm_agent"
    return {"name": "Tester", "agent_type": kind, "llm_config": {"model": model}, **fields}


def new_client(base_url: str, key: str | None) -> httpx.AsyncClient:
    """A client whose paths are relative to ``/api/v1``."""
    return httpx.AsyncClient(
        base_url=f"{base_url}/api/v1",
        headers={"x-api-key": key} if key else {},
        timeout=httpx.Timeout(660, connect=60, pool=None),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
        trust_env=False,
    )


@dataclass(frozen=True)
class StreamedEvent:
    """``id`` is empty for the event of an error."""

    name: str
    data: dict[str, Any]
    id: str = ""


@dataclass
class Api:
    """The public API for one key."""

    http: httpx.AsyncClient
    problems: list[str] = field(default_factory=list)

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Creates a resource, and retries while a service is busy or restarts."""
        reply = await self.persistently("POST", path, json=body, headers={"idempotency-key": unique()})
        assert reply.status_code == 201, reply.text
        return reply.json()

    async def agent(self, model: str = MODEL, **fields: Any) -> str:
        """A stored agent's key."""
        made = await self.create("/agent/", {**configuration(model, **fields), "name": unique("Agent")})
        return str(made["agent_key"])

    async def session(self, model: str = MODEL, **fields: Any) -> str:
        """A new session's id."""
        return str((await self.create("/sessions/", configuration(model, **fields)))["session_id"])

    async def sessions(self, count: int, model: str = MODEL, **fields: Any) -> list[str]:
        return list(await asyncio.gather(*(self.session(model, **fields) for _ in range(count))))

    async def execute(self, session_id: str, content: Any, **headers: str) -> httpx.Response:
        """Header names with underscores: ``prefer``, ``idempotency_key``, ``x_correlation_id``."""
        return await self.http.post(
            f"/runtime/{session_id}/execute/", json={"content": content}, headers=_dashed(headers)
        )

    async def messages(self, session_id: str, *, patient: bool = False) -> list[dict[str, Any]]:
        """The history; ``patient`` callers ask again while something is not back yet."""
        ask = self.persistently if patient else self.http.request
        reply = await ask("GET", f"/runtime/{session_id}/messages/", params={"limit": 200})
        assert reply.status_code == 200, reply.text
        return reply.json()["messages"]

    async def turn(self, session_id: str, turn_id: str) -> dict[str, Any]:
        reply = await self.http.get(f"/runtime/{session_id}/turns/{turn_id}/")
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def turn_ended(self, session_id: str, turn_id: str) -> dict[str, Any]:
        """The turn once nothing more happens to it."""

        async def look() -> dict[str, Any] | None:
            turn = await self.turn(session_id, turn_id)
            return turn if turn["status"] in ("completed", "failed", "cancelled") else None

        return await until(look)

    async def in_background(self, session_id: str, content: Any, **headers: str) -> dict[str, Any]:
        """Execute without waiting for the end; returns the body of the 202."""
        reply = await self.execute(session_id, content, prefer="respond-async", **headers)
        assert reply.status_code == 202, reply.text
        return reply.json()

    async def events(self, session_id: str, content: Any, **headers: str) -> AsyncGenerator[StreamedEvent, None]:
        """Execute, streamed."""
        request = self.http.stream(
            "POST",
            f"/runtime/{session_id}/execute/",
            json={"content": content},
            headers={"accept": "text/event-stream", **_dashed(headers)},
        )
        async with request as reply:
            assert reply.status_code == 200, (await reply.aread()).decode()
            assert reply.headers["content-type"].startswith("text/event-stream")
            async for event in _parsed(reply):
                yield event

    async def follow(self, session_id: str, turn_id: str, after: str = "") -> AsyncGenerator[StreamedEvent, None]:
        """The events of a turn, from its start or after one of them."""
        headers = {"last-event-id": after} if after else {}
        async with self.http.stream("GET", f"/runtime/{session_id}/turns/{turn_id}/events/", headers=headers) as reply:
            assert reply.status_code == 200, (await reply.aread()).decode()
            async for event in _parsed(reply):
                yield event

    async def persistently(self, method: str, path: str, **how: Any) -> httpx.Response:
        """The answer to a request that is repeated, as a careful client does, while there is none.

        What came instead of an answer is kept in ``problems``.
        """

        async def answer() -> httpx.Response | None:
            try:
                reply = await self.http.request(method, path, **how)
            except httpx.TransportError as problem:
                self.problems.append(repr(problem))
                return None
            if reply.status_code not in _REFUSALS_TO_REPEAT:
                return reply
            self.problems.append(reply.text)
            return None

        found = await until(answer, f"an answer to {method} {path}", pause=0.3)
        assert found is not None
        return found


def check_error(reply: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    """The error of a reply, which must have the documented form; returns what stands under ``error``."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"].split(";")[0] == "application/json"
    document = reply.json()
    assert set(document) == {"error"}
    error: dict[str, Any] = document["error"]
    assert {"type", "message"} <= set(error) <= {"type", "message", "details", "correlation_id"}
    assert error["type"] == kind
    assert error["message"]
    assert error["correlation_id"] == reply.headers["x-correlation-id"]
    assert error.get("details") or status != 422, "what is not valid says where"
    for detail in error.get("details", []):
        assert set(detail) == {"loc", "type", "message", "hint"}
    return error


async def _parsed(reply: httpx.Response) -> AsyncGenerator[StreamedEvent, None]:
    # Not by httpx's lines: those also end at characters that mean nothing to the format.
    rest = b""
    async for piece in reply.aiter_bytes():
        *blocks, rest = (rest + piece).split(b"\n\n")
        for block in blocks:
            fields = [line.split(b": ", 1) for line in block.split(b"\n") if not line.startswith(b":")]
            if fields:
                names, values = zip(*fields, strict=True)
                assert names[-2:] == (b"event", b"data"), block
                assert names[:-2] == (() if values[-2] == b"error" else (b"id",)), block
                yield StreamedEvent(values[-2].decode(), orjson.loads(values[-1]), b"".join(values[:-2]).decode())
    assert not rest


def _dashed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
