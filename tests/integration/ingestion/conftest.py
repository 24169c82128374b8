"""An ingestion service on a database of its own; commands and HTTP calls reach it without a broker."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row
from pydantic import SecretStr

from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Command
from libs.eventing.messages import OutboxMessage
from libs.objects import LocalObjects
from libs.service_defaults import Service
from services.ingestion.bootstrap import MIGRATIONS, build
from services.ingestion.settings import IngestionSettings
from tests.support.command_records import SIGNING_KEY, command_record
from tests.support.registry import identity


@dataclass
class Ingestion:
    service: Service
    http: httpx.AsyncClient
    objects: LocalObjects
    database_url: str

    async def run_command(
        self, command: Command, caller: Identity | None = None, command_id: str | None = None
    ) -> OutboxMessage:
        """Deliver a command as the consumer does; returns the event that ended it."""
        command_id = await self.deliver(command, caller, command_id)
        outcome = await self.service.outbox.outcome(command_id)
        assert outcome is not None
        return outcome

    async def deliver(self, command: Command, caller: Identity | None = None, command_id: str | None = None) -> str:
        """Delivers a command that ends later; returns its id."""
        command_id = command_id or new_id()
        record = command_record(command, command_id=command_id, caller=caller or identity())
        await self.service.commands.deliver(record)
        return command_id

    async def upload(
        self, *files: tuple[str, bytes], caller: Identity | None = None, key: str | None = None
    ) -> httpx.Response:
        """Name and content of each file."""
        headers = dict(self._headers(caller), **({"Idempotency-Key": key} if key else {}))
        parts = [("file", (name, content)) for name, content in files]
        return await self.http.post("/internal/files", files=parts, headers=headers)

    async def file(self, name: str = "a.txt", content: bytes = b"some text", **options: Any) -> dict[str, Any]:
        """Upload one file; returns its record."""
        response = await self.upload((name, content), **options)
        assert response.status_code == 201, response.text
        record: dict[str, Any] = response.json()
        return record

    async def get(
        self, path: str, caller: Identity | None = None, headers: Mapping[str, str] | None = None, **params: Any
    ) -> httpx.Response:
        return await self.http.get(path, params=params, headers={**self._headers(caller), **(headers or {})})

    async def post(self, path: str, body: Any, caller: Identity | None = None) -> httpx.Response:
        return await self.http.post(path, json=body, headers=self._headers(caller))

    async def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Runs a statement and returns its rows; also for moving rows into the past."""
        async with await psycopg.AsyncConnection.connect(self.database_url, autocommit=True) as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(query, values)
            return await cursor.fetchall() if cursor.description else []

    async def stored(self) -> list[str]:
        """All keys in the object store."""
        return sorted([entry.key async for entry in self.objects.entries()])

    async def events(self, *types: str) -> list[str]:
        rows = await self.rows("SELECT type FROM outbox ORDER BY id")
        names = [row["type"].removeprefix("aes.ingestion.").removesuffix(".v1") for row in rows]
        return [name for name in names if not types or name in types]

    def _headers(self, caller: Identity | None) -> Mapping[str, str]:
        token = self.service.signer.sign(caller or identity(), expires_at=time() + 60)
        return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def migrations() -> Path:
    return MIGRATIONS


@pytest.fixture
async def ingestion(database_url: str, tmp_path: Path) -> AsyncIterator[Ingestion]:
    settings = IngestionSettings(
        database_url=SecretStr(database_url),
        signing_key=SecretStr(SIGNING_KEY),
        objects_url=SecretStr(f"file:{tmp_path}/objects"),
        max_upload_bytes=1_000_000,
        max_files_per_upload=5,
    )
    service = build(settings)
    await service.database.open()
    objects = LocalObjects(tmp_path / "objects")
    await objects.start()
    transport = httpx.ASGITransport(service.http)
    async with httpx.AsyncClient(transport=transport, base_url="http://ingestion") as http:
        yield Ingestion(service, http, objects, database_url)
    await service.calls.stop()
    await service.database.close()
