"""A company of the benchmark, as its clients see the API."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

_WITHIN_SECONDS: Final = 120.0
_AGAIN_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True)
class File:
    name: str
    content: bytes

    def form(self) -> aiohttp.FormData:
        form = aiohttp.FormData()
        form.add_field("file", self.content, filename=self.name)
        return form


@dataclass(frozen=True, slots=True)
class Company:
    """Calls the API with one company's key, and repeats writes that were not accepted in time."""

    session: aiohttp.ClientSession

    async def post(self, path: str, body: Any, *expected: int, **headers: str) -> dict[str, Any]:
        headers["idempotency-key"] = uuid.uuid4().hex
        while True:
            sent = {"json": body}
            if isinstance(body, File):
                sent = {"data": body.form()}
            async with self.session.post(f"/api/v1{path}", headers=headers, **sent) as answer:
                if answer.status in expected:
                    return dict(await answer.json())
                if answer.status not in (503, 504):
                    raise Unexpected(answer.status, await answer.text(), float(answer.headers.get("Retry-After", 0)))
            await asyncio.sleep(_AGAIN_SECONDS)

    async def new_session(self, model: str) -> str:
        agent = {"name": "Fair", "agent_type": "llm_agent", "llm_config": {"model": model}}
        return str((await self.post("/sessions/", agent, 201))["session_id"])

    async def upload(self, name: str, content: bytes) -> str:
        return str((await self.post("/files/", File(name, content), 201))["id"])

    async def ingest(self, name: str, content: bytes, **settings: Any) -> None:
        """From the upload to a knowledge base that can be searched."""
        file_id = await self.upload(name, content)
        base = {"name": name, "file_ids": [file_id], **settings}
        base_id = (await self.post("/knowledge-bases/", base, 201))["id"]
        async with asyncio.timeout(_WITHIN_SECONDS):
            while True:
                async with self.session.get(f"/api/v1/knowledge-bases/{base_id}/") as answer:
                    if (await answer.json()).get("status") in ("completed", "failed"):
                        return
                await asyncio.sleep(0.1)


class Unexpected(Exception):
    def __init__(self, status: int, body: str, retry_after: float) -> None:
        super().__init__(f"{status}: {body[:300]}")
        self.status = status
        self.retry_after = retry_after


@contextlib.asynccontextmanager
async def company_at(base_url: str, api_key: str) -> AsyncIterator[Company]:
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0)
    headers = {"x-api-key": api_key}
    async with aiohttp.ClientSession(base_url, headers=headers, timeout=timeout, connector=connector) as session:
        yield Company(session)
