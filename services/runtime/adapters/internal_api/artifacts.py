"""Reads and stores session artifacts through the artifacts service's internal API."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import orjson

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.resources.artifacts import (
    Artifact,
    ArtifactPage,
    ArtifactPassages,
    ArtifactPreview,
    ArtifactText,
    Sheet,
)
from libs.retry import CircuitBreaker, RetryPolicy
from libs.service_defaults import UpstreamClient, UpstreamResponse, UpstreamStream
from libs.service_defaults.internal_calls import checked
from services.runtime.domain.conversation import Citation

_DEADLINE_SECONDS: Final = 10.0
_BYTES_SECONDS: Final = 60.0
_MOST: Final = 200
_RETRIES: Final = RetryPolicy(longest=1.0, give_up_after=10.0)
_BYTES: Final = {"Content-Type": "application/octet-stream"}
_OWNER: Final = "artifacts"
_Exchange = AbstractAsyncContextManager[UpstreamStream]
_Read = Callable[[AsyncIterator[bytes]], Awaitable[bytes]]


class HttpArtifacts:
    """Implements SessionArtifacts over HTTP. If the service doesn't respond, calls are retried for ten seconds."""

    def __init__(self, calls: UpstreamClient) -> None:
        self._calls = calls
        self._breaker = CircuitBreaker(_RETRIES)

    async def get(self, session_id: str, artifact_id: str, caller: Identity) -> Artifact:
        return Artifact.model_validate_json(await self._ask("GET", _path(session_id, artifact_id), caller))

    async def by_url(self, session_id: str, url: str, caller: Identity) -> Artifact:
        return Artifact.model_validate_json(
            await self._ask("POST", _path(session_id, "resolve"), caller, body={"url": url})
        )

    async def all(self, session_id: str, caller: Identity) -> list[Artifact]:
        body = await self._ask("GET", _path(session_id), caller, params={"limit": _MOST})
        return ArtifactPage.model_validate_json(body).artifacts

    async def text(
        self, session_id: str, artifact_id: str, caller: Identity, *, offset: int, limit: int
    ) -> ArtifactText:
        params = {"offset": offset, "limit": limit}
        body = await self._ask("GET", f"{_path(session_id, artifact_id)}/text", caller, params=params)
        return ArtifactText.model_validate_json(body)

    async def search(
        self, session_id: str, query: str, caller: Identity, *, artifact_ids: Sequence[str] | None, top_k: int
    ) -> tuple[Citation, ...]:
        wanted = {"query": query, "top_k": top_k, **({} if artifact_ids is None else {"artifact_ids": artifact_ids})}
        body = await self._ask("POST", _path(session_id, "search"), caller, body=wanted)
        return tuple(
            Citation(
                found.passage,
                found.score,
                file_name=found.name or None,
                page=found.page,
                row=found.row,
                artifact_id=found.artifact_id,
            )
            for found in ArtifactPassages.model_validate_json(body).results
        )

    async def tables(self, session_id: str, artifact_id: str, caller: Identity, *, rows: int) -> list[Sheet]:
        path = f"{_path(session_id, artifact_id)}/preview"
        body = await self._ask("GET", path, caller, params={"rows": rows})
        return ArtifactPreview.model_validate_json(body).sheets

    async def content(self, session_id: str, artifact_id: str, caller: Identity) -> bytes:
        return await self._exchange(lambda: self._download(session_id, artifact_id, caller))

    async def save(self, session_id: str, artifact_id: str, caller: Identity, path: Path) -> None:
        await self._exchange(lambda: self._download(session_id, artifact_id, caller), partial(_write, path))

    async def create(self, session_id: str, caller: Identity, *, name: str, key: str, content: bytes) -> Artifact:
        async def pieces() -> AsyncIterator[bytes]:
            yield content

        def upload() -> _Exchange:
            params = {"name": name, "key": key}
            return self._calls.exchange("POST", _OWNER, path, caller, params=params, body=pieces(), headers=_BYTES)

        path = f"/internal/sessions/{quote(session_id, safe='')}/generated-artifacts"
        return Artifact.model_validate_json(await self._exchange(upload))

    def _download(self, session_id: str, artifact_id: str, caller: Identity) -> _Exchange:
        return self._calls.exchange("GET", _OWNER, f"{_path(session_id, artifact_id)}/download", caller)

    async def _exchange(self, begin: Callable[[], _Exchange], read: _Read | None = None) -> bytes:
        """Returns the whole body, or what ``read`` makes of the pieces of a successful response."""

        async def attempt() -> UpstreamResponse:
            async with begin() as answer:
                body = await (read if read and answer.status < 400 else _joined)(answer.pieces)
                return UpstreamResponse(answer.status, body, "")

        async with asyncio.timeout(_BYTES_SECONDS):
            return checked(await self._breaker.run(attempt, on=ServiceUnavailable))

    async def _ask(
        self,
        method: str,
        path: str,
        caller: Identity,
        *,
        params: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
    ) -> bytes:
        sent = None if body is None else orjson.dumps(body)

        def ask() -> Awaitable[UpstreamResponse]:
            return self._calls.request(
                method, _OWNER, path, caller, params=params, body=sent, deadline=_DEADLINE_SECONDS
            )

        return checked(await self._breaker.run(ask, on=ServiceUnavailable))


def _path(session_id: str, *more: str) -> str:
    return "/".join(["/internal/sessions", quote(session_id, safe=""), "artifacts", *(quote(m, safe="") for m in more)])


async def _joined(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


async def _write(path: Path, pieces: AsyncIterator[bytes]) -> bytes:
    with await asyncio.to_thread(path.open, "wb") as file:
        async for piece in pieces:
            await asyncio.to_thread(file.write, piece)
    return b""
