"""Plugin of pytest that writes down what clients of the gateway see: `pytest tests/unit/gateway --bodies FILE`.

A comparison of two such files shows whether a change of the gateway's inside is seen outside. Each line is one request
of one test: method, path, status, type and body of the answer. What differs from run to run is replaced: ids by their
order of appearance in the test, times and random secrets by a word. A long body is replaced by its length and digest.
"""

import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from starlette.applications import Starlette

Asgi = Callable[[dict[str, Any], Any, Any], Awaitable[None]]

_ID: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])"
)
_RANDOM: Final = (
    (re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?"), "TIME"),
    (
        re.compile(r'("(?:created|created_at|completed_at|expires_at|last_active_at|iat|exp)":\s*)1[5-9]\d{8}(\.\d+)?'),
        r"\1TIME",
    ),
    (re.compile(r"vsfb_[\w-]+"), "vsfb_ID"),
    # How many of them come within a wait depends on the machine.
    (re.compile(r": keep-alive\n\n"), ""),
    (re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+"), "TOKEN"),
    (re.compile(r"\b(aes|pub|whsec)_[\w+/=-]{8,}"), r"\1_SECRET"),
)
_MOST_CHARACTERS: Final = 2000
_seen: Final[dict[str, list[dict[str, Any]]]] = defaultdict(list)
_recording = False


def record(application: Starlette) -> None:
    """Has the application's answers written down where the run was asked for it."""
    if _recording:
        application.add_middleware(RecordedBodies)


class RecordedBodies:
    """Middleware that writes down the answers over HTTP."""

    def __init__(self, app: Asgi) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        query = scope["query_string"].decode()
        exchange: dict[str, Any] = {"request": f"{scope['method']} {scope['path']}{'?' if query else ''}{query}"}
        body = bytearray()
        # Before the answer: streams that a client leaves are written down, too, as far as they came.
        _seen[os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]].append(exchange)

        async def seen(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = {name.lower(): value for name, value in message["headers"]}
                exchange["status"] = message["status"]
                exchange["type"] = headers.get(b"content-type", b"").decode()
            else:
                body.extend(message.get("body", b""))
                exchange["body"] = body.decode(errors="replace")
            await send(message)

        await self._app(scope, receive, seen)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("suite").addoption("--bodies", metavar="FILE", help="write what clients of the gateway see to FILE")


def pytest_configure(config: pytest.Config) -> None:
    global _recording
    _recording = config.getoption("--bodies") is not None


def pytest_sessionfinish(session: pytest.Session) -> None:
    if file := session.config.getoption("--bodies"):
        lines = [line for test in sorted(_seen) for line in _lines(test, _seen[test])]
        Path(file).write_text("".join(lines))


def _lines(test: str, exchanges: list[dict[str, Any]]) -> list[str]:
    names: dict[str, str] = {}

    def without_chance(text: str) -> str:
        for pattern, word in _RANDOM:
            text = pattern.sub(word, text)
        return _ID.sub(lambda found: names.setdefault(found[0], f"ID{len(names) + 1}"), text)

    return [
        json.dumps(
            {
                "test": test,
                **each,
                "request": without_chance(each["request"]),
                "body": _shortened(without_chance(each.get("body", ""))),
            },
            ensure_ascii=False,
        )
        + "\n"
        for each in exchanges
    ]


def _shortened(body: str) -> str:
    if len(body) <= _MOST_CHARACTERS:
        return body
    return f"{len(body)} characters, sha256 {hashlib.sha256(body.encode(errors='surrogateescape')).hexdigest()}"
