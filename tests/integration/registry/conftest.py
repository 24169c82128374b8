"""A registry on a database of its own: delivered commands and HTTP without a broker in between."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Command
from libs.eventing.messages import OutboxMessage
from libs.service_defaults import Service
from services.registry.bootstrap import MIGRATIONS, build
from services.registry.settings import RegistrySettings
from tests.support.command_records import SIGNING_KEY, command_record
from tests.support.registry import identity


@dataclass
class Registry:
    service: Service
    http: httpx.AsyncClient

    async def dispatch(
        self, command: Command, caller: Identity | None = None, command_id: str | None = None
    ) -> OutboxMessage:
        """Deliver a command as the consumer does; returns the event that ended it."""
        command_id = command_id or new_id()
        record = command_record(command, command_id=command_id, caller=caller or identity())
        await self.service.commands.deliver(record)
        outcome = await self.service.outbox.outcome(command_id)
        assert outcome is not None
        return outcome

    async def get(self, path: str, caller: Identity | None = None, **params: Any) -> httpx.Response:
        return await self.http.get(path, params=params, headers=self._headers(caller))

    async def post(self, path: str, body: Any, caller: Identity | None = None) -> httpx.Response:
        return await self.http.post(path, json=body, headers=self._headers(caller))

    def _headers(self, caller: Identity | None) -> Mapping[str, str]:
        token = self.service.signer.sign(caller or identity(), expires_at=time() + 60)
        return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def migrations() -> Path:
    return MIGRATIONS


@asynccontextmanager
async def registry_on(database_url: str, **urls: str) -> AsyncIterator[Registry]:
    settings = RegistrySettings(
        database_url=SecretStr(database_url),
        signing_key=SecretStr(SIGNING_KEY),
        **{"runtime_url": "", "ingestion_url": "", **urls},
    )
    service = build(settings)
    await service.database.open()
    transport = httpx.ASGITransport(service.http)
    async with httpx.AsyncClient(transport=transport, base_url="http://registry") as http:
        yield Registry(service, http)
    await service.calls.stop()
    await service.database.close()


@pytest.fixture
async def registry(database_url: str) -> AsyncIterator[Registry]:
    async with registry_on(database_url) as alone:
        yield alone
