"""The official MCP client, with a key, in both eras of the protocol."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

ERAS = ("legacy", "auto")
"""Modes of the client: the handshake of the versions before 2026, and what it finds out by itself."""


@asynccontextmanager
async def mcp_client(base_url: str, key: str, *, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
    sent = {"Authorization": f"Bearer {key}", **headers}
    async with httpx2.AsyncClient(headers=sent, timeout=60, trust_env=False) as http:
        transport = streamable_http_client(f"{base_url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


def text_of(result: Any) -> str:
    """The texts of a tool's result."""
    return "\n".join(block.text for block in result.content if block.type == "text")
