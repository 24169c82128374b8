"""An MCP server of the official SDK.

It writes every call that reaches a tool into the journal, a JSON line each. Modes: `modern`; `sessions`, which knows
only the handshake with sessions of protocol versions before 2026; `others`, which has other tools.
"""

import base64
import json
import logging
import os
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.support.waiting import pace

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def server(journal: Path, mode: str) -> MCPServer:
    made = MCPServer("ticket office")

    def note(tool: str, context: Context) -> None:
        meta: Any = context.request_context.meta or {}
        line = {"tool": tool, "pid": os.getpid(), "key": dict(meta).get("Idempotency-Key")}
        with journal.open("a") as file:
            file.write(json.dumps(line) + "\n")

    if mode == "others":

        @made.tool()
        async def other(context: Context) -> str:
            note("other", context)
            return "something else"

        return made

    @made.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def seats(show: str, context: Context) -> dict[str, int]:
        """Free seats of a show."""
        note("seats", context)
        return {"free": len(show)}

    @made.tool()
    async def book(show: str, context: Context) -> str:
        """Books a seat."""
        note("book", context)
        return f"booked {show}"

    @made.tool(annotations=ToolAnnotations(idempotent_hint=True))
    async def echo(text: str) -> str:
        return text

    @made.tool()
    async def fail(text: str) -> str:
        raise ValueError(text)

    @made.tool()
    async def wait(seconds: float, context: Context) -> str:
        note("wait", context)
        await pace(seconds)
        return "waited"

    @made.tool()
    async def large(megabytes: int) -> str:
        return "x" * (megabytes * 1024 * 1024)

    @made.tool()
    async def die(context: Context) -> str:
        note("die", context)
        os._exit(1)

    @made.tool()
    async def media() -> CallToolResult:
        resource = TextResourceContents(uri="file:///notes.txt", text="notes of the day")
        return CallToolResult(
            content=[
                TextContent(type="text", text="here"),
                ImageContent(type="image", data=base64.b64encode(PNG).decode(), mime_type="image/png"),
                ImageContent(type="image", data="AA==", mime_type="image/tiff"),
                ImageContent(type="image", data="not base64!", mime_type="image/png"),
                AudioContent(type="audio", data="AA==", mime_type="audio/wav"),
                EmbeddedResource(type="resource", resource=resource),
            ]
        )

    @made.tool()
    async def header(name: str, context: Context) -> str:
        headers: Any = context.headers or {}
        return str(headers.get(name.lower()))

    return made


def sessions_only(app: ASGIApp) -> ASGIApp:
    """Answers requests of newer protocol versions as a server does that never heard of them."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        versions = [value for name, value in scope.get("headers", []) if name == b"mcp-protocol-version"]
        if scope["type"] == "http" and versions and versions[0] >= b"2026":
            await send({"type": "http.response.start", "status": 400, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})
            return
        await app(scope, receive, send)

    return answer


def serve(port: int, journal: Path, mode: str) -> None:
    """Serves until the process is killed."""
    logging.disable()
    app: ASGIApp = server(journal, mode).streamable_http_app(json_response=mode == "modern")
    uvicorn.run(sessions_only(app) if mode == "sessions" else app, port=port, log_level="error")
