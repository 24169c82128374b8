"""A careful client of several gateways: repeats with the same key what was cut off or refused for a moment."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import httpx
import orjson

TIMEOUT_SECONDS: Final = 300.0
_LONGEST_PAUSE: Final = 2.0
_FILES_AT_ONCE: Final = 10
_TERMINAL: Final = frozenset({"turn.completed", "turn.failed", "turn.cancelled"})


class Lost(Exception):
    """A guarantee to clients did not hold."""


@dataclass
class Troubles:
    """Counts disturbances on a client's way to an answer, by kind; none of them is a loss."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def note(self, kind: str, example: str) -> None:
        self.counts[kind] += 1
        self.examples.setdefault(kind, example[:300])


class Client:
    """Requests go to the gateways in turn, and to the next one when one is away."""

    def __init__(self, base_urls: list[str], api_key: str, *, longest_pause: float = _LONGEST_PAUSE) -> None:
        """``longest_pause``: seconds before a refused request is repeated, even when told to wait longer."""
        self.troubles = Troubles()
        self.answered: Counter[str] = Counter()
        """Answers by gateway."""
        self._urls = base_urls
        self._longest_pause = longest_pause
        self._turns = count()
        self._http = httpx.AsyncClient(
            headers={"x-api-key": api_key},
            timeout=httpx.Timeout(150, connect=60, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
            trust_env=False,
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def call(self, method: str, path: str, *, expect: int, key: str | None = None, **how: Any) -> httpx.Response:
        """The answer with that status. Writes carry the same key each time. Raises Lost for any other."""
        headers = {**how.pop("headers", {}), "idempotency-key": key or unique()}
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            url = self._next()
            try:
                reply = await self._http.request(method, f"{url}/api/v1{path}", headers=headers, **how)
            except httpx.TransportError as problem:
                await self._met(problem, method, path)
                continue
            if reply.status_code == expect:
                self.answered[url] += 1
                return reply
            await self._refused(reply, method, path)
        raise Lost(f"no answer to {method} {path} within {TIMEOUT_SECONDS:g} s; last: {self.troubles.examples}")

    async def execute(self, session: str, content: str, label: str) -> dict[str, Any]:
        """The reply; ``label`` is key and correlation id."""
        return (await self._execute(session, content, label, expect=200)).json()

    async def begin(self, session: str, content: str, label: str) -> str:
        """The id of a turn in the background."""
        accepted = await self._execute(session, content, label, expect=202, prefer="respond-async")
        return str(accepted.json()["turn_id"])

    async def _execute(self, session: str, content: str, label: str, *, expect: int, **headers: str) -> httpx.Response:
        headers["x-correlation-id"], body = label, {"content": content}
        return await self.call("POST", _execute(session), expect=expect, key=label, json=body, headers=headers)

    async def turn(self, session: str, turn_id: str) -> dict[str, Any]:
        return (await self.call("GET", f"/runtime/{session}/turns/{turn_id}/", expect=200)).json()

    async def stream(self, session: str, content: str, label: str) -> dict[str, Any]:
        """The terminal event of a streamed turn, repeated with the same key while the stream breaks off before it."""
        path, headers = _execute(session), {"x-correlation-id": label, "idempotency-key": label}
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            url = self._next()
            try:
                end = await self._streamed(f"{url}/api/v1{path}", {"content": content}, headers)
            except httpx.TransportError as problem:
                await self._met(problem, "POST", path)
                continue
            if isinstance(end, httpx.Response):
                await self._refused(end, "POST", path)
            elif end is not None:
                self.answered[url] += 1
                return end
            else:
                self.troubles.note("streams that ended early", path)
        raise Lost(f"no end of a stream of {path} within {TIMEOUT_SECONDS:g} s; last: {self.troubles.examples}")

    async def _streamed(
        self, url: str, body: dict[str, Any], headers: dict[str, str]
    ) -> dict[str, Any] | httpx.Response | None:
        headers = {**headers, "accept": "text/event-stream"}
        async with self._http.stream("POST", url, json=body, headers=headers) as reply:
            if reply.status_code != 200:
                await reply.aread()
                return reply
            async for name, data in _events(reply):
                if name in _TERMINAL:
                    return {"event": name, **data}
        return None

    async def session(self, agent: dict[str, Any]) -> str:
        headers = {"x-correlation-id": unique("session")}
        made = await self.call("POST", "/sessions/", expect=201, json=agent, headers=headers)
        return str(made.json()["session_id"])

    async def upload(self, session: str, content: bytes) -> str:
        """The id of the artifact."""
        files = {"file": (f"{unique('notes')}.txt", content)}
        made = await self.call("POST", f"/sessions/{session}/artifacts/", expect=201, files=files)
        return str(made.json()["artifact_id"])

    async def ingest(self, words: Sequence[str]) -> str:
        """The id of a new knowledge base; each word is in a document of its own."""
        files = [("file", (f"{word}.md", f"# About {word}\n\nThe {word} is kept here.\n")) for word in words]
        ids: list[str] = []
        for start in range(0, len(files), _FILES_AT_ONCE):
            made = await self.call("POST", "/files/", expect=201, files=files[start : start + _FILES_AT_ONCE])
            ids += [file["id"] for file in made.json()["files"]]
        body = {"name": unique("base"), "file_ids": ids}
        return str((await self.call("POST", "/knowledge-bases/", expect=201, json=body)).json()["id"])

    async def knowledge_base(self, words: Sequence[str]) -> str:
        """The same, when it is complete."""
        base = await self.ingest(words)
        deadline = time.monotonic() + 2 * TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            found = (await self.call("GET", f"/knowledge-bases/{base}/", expect=200)).json()
            if found["status"] == "completed":
                return base
            if found["status"] == "failed":
                raise Lost(f"the ingestion of {base} failed: {found['datasource_errors']}")
            await asyncio.sleep(0.2)
        raise Lost(f"the ingestion of {base} did not end: {found['status']} at {found['progress']} %")

    async def passages(self, base: str, word: str) -> int:
        """Returns the number of passages found. A document that was indexed twice would be found twice."""
        body = {"query": word, "mode": "keyword", "top_k": 10}
        reply = await self.call("POST", f"/knowledge-bases/{base}/search/", expect=200, json=body)
        return len(reply.json()["results"])

    def _next(self) -> str:
        return self._urls[next(self._turns) % len(self._urls)]

    async def _met(self, problem: httpx.TransportError, method: str, path: str) -> None:
        # One that was never connected was not cut off: every client of several addresses tries the next.
        refused = isinstance(problem, httpx.ConnectError)
        self.troubles.note("connections refused" if refused else "requests cut off", f"{method} {path}: {problem!r}")
        await asyncio.sleep(0.1)

    async def _refused(self, reply: httpx.Response, method: str, path: str) -> None:
        what = f"{method} {path}: {reply.status_code} {reply.text}"
        if reply.status_code not in (429, 503, 504):
            raise Lost(what)
        if reply.status_code != 504 and "retry-after" not in reply.headers:
            raise Lost(f"told to come again, but not when: {what}")
        self.troubles.note(f"answers with {reply.status_code}", what)
        await asyncio.sleep(min(float(reply.headers.get("retry-after", 0.5)), self._longest_pause))


async def _events(reply: httpx.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    rest = b""
    async for piece in reply.aiter_bytes():
        *blocks, rest = (rest + piece).split(b"\n\n")
        for block in blocks:
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if line and not line.startswith(b":"))
            if fields:
                yield fields[b"event"].decode(), orjson.loads(fields[b"data"])


def unique(prefix: str = "rolling") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def unique_words(count: int) -> tuple[str, ...]:
    return tuple(unique("word").replace("-", "") for _ in range(count))


def _execute(session: str) -> str:
    return f"/runtime/{session}/execute/"
