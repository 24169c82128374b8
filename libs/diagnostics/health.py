"""Reads a process's readiness over HTTP. Uses a plain socket, because the embedded stack polls often.

``deploy/images/healthcheck.py`` does the same in a container, without imports from the project.
"""

import asyncio
import json
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

_MOST_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Health:
    """The readiness of a process. ``waiting`` contains the failing checks and their reasons."""

    is_ready: bool
    version: str | None
    waiting: Mapping[str, str]


async def ask_health(url: str, service: str) -> Health | None:
    """Returns the health of the process at this base URL, or None if another program responds.

    Raises OSError if the connection fails, and ValueError if the URL is invalid. The caller sets the timeout.
    """
    status, body = await get(url, "/health/ready")
    try:
        answer: Any = json.loads(body)
    except ValueError:
        return None
    if not isinstance(answer, dict) or answer.get("service") != service:
        return None
    version, checks = answer.get("version"), answer.get("checks")
    failing = {name: str(state) for name, state in checks.items() if state != "ok"} if isinstance(checks, dict) else {}
    return Health(status == 200, version if isinstance(version, str) else None, failing)


async def get(url: str, path: str) -> tuple[int, bytes]:
    """Returns the status and the start of the body. The status is 0 if the response isn't HTTP."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"invalid service URL {url!r}")
    secured = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if secured else 80)
    shutdown_seconds = 1.0 if secured else None
    reader, writer = await asyncio.open_connection(
        parts.hostname, port, ssl=secured, ssl_shutdown_timeout=shutdown_seconds
    )
    try:
        # With HTTP 1.0, responses aren't chunked.
        question = f"GET {parts.path.rstrip('/')}{path} HTTP/1.0\r\nHost: {parts.netloc.rpartition('@')[2]}\r\n\r\n"
        writer.write(question.encode())
        answer = b""
        while len(answer) < _MOST_BYTES and (piece := await reader.read(_MOST_BYTES)):
            answer += piece
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(None, 2)[1:2]
    return (int(status[0]) if status and status[0].isdigit() else 0), body
