"""Two replicas of the gateway before an upstream or a real runtime, on the real broker and databases."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from psycopg import AsyncConnection
from pydantic import SecretStr

from deploy.local.ports import choose_free
from libs.contracts.identifiers import new_id
from libs.eventing import create_topics
from libs.service_defaults import Service
from services.gateway.administration import ensure_development_key
from services.gateway.bootstrap import MIGRATIONS, build
from services.gateway.settings import GatewaySettings
from services.runtime.bootstrap import MIGRATIONS as RUNTIME_MIGRATIONS
from services.runtime.bootstrap import build as build_runtime
from services.runtime.settings import RuntimeSettings
from tests.servers.model_stub import ModelStub
from tests.support import sample_owner
from tests.support.gateway_upstream import Upstream, UpstreamSettings
from tests.support.infrastructure import Infrastructure

SIGNING_KEY = SecretStr("k" * 40)


@dataclass
class Replicas:
    """``clients`` use the development company's key, one for each replica."""

    services: list[Service]
    clients: list[httpx.AsyncClient]
    upstream: Upstream
    database_url: str
    secret: str


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not await check():
            await asyncio.sleep(0.05)


async def until_ready(service: Service) -> None:
    async def ready() -> bool:
        return all(outcome == "ok" for outcome in (await service.readiness.results()).values())

    await eventually(ready)


def gateway_on(database_url: str, kafka: str, prefix: str, upstream_url: str = "") -> Service:
    return build(
        GatewaySettings(
            kafka_bootstrap_servers=kafka,
            topic_prefix=prefix,
            signing_key=SIGNING_KEY,
            auto_migrate=True,
            database_url=SecretStr(database_url),
            port=choose_free(),
            registry_url=upstream_url,
            runtime_url=upstream_url,
            shutdown_grace_seconds=1,
        )
    )


def client_of(service: Service, secret: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{service.settings.port}/api/v1", headers={"x-api-key": secret}, timeout=30
    )


@pytest.fixture
def migrations() -> Path:
    return MIGRATIONS


@pytest.fixture
async def replicas(
    infrastructure: Infrastructure, kafka: str, topic_prefix: str, database_url: str
) -> AsyncIterator[Replicas]:
    await create_topics(kafka, topic_prefix)
    upstream_database = f"test_{secrets.token_hex(6)}"
    upstream = Upstream(
        UpstreamSettings(
            kafka_bootstrap_servers=kafka,
            topic_prefix=topic_prefix,
            signing_key=SIGNING_KEY,
            auto_migrate=True,
            database_url=SecretStr(await infrastructure.create_migrated(upstream_database, sample_owner.MIGRATIONS)),
            port=choose_free(),
            shutdown_grace_seconds=1,
        )
    )
    url = f"http://127.0.0.1:{upstream.service.settings.port}"
    gateways = [gateway_on(database_url, kafka, topic_prefix, url) for _ in range(2)]
    services = [upstream.service, *gateways]
    running = [asyncio.create_task(service.run()) for service in services]
    for service in services:
        await until_ready(service)
    secret = await ensure_development_key(database_url)
    clients = [client_of(service, secret) for service in gateways]
    yield Replicas(gateways, clients, upstream, database_url, secret)
    for client in clients:
        await client.aclose()
    for service in services:
        service.stop()
    await asyncio.gather(*running)
    await infrastructure.drop_database(upstream_database)


@dataclass
class Installation:
    """Two gateways and a runtime; ``clients`` use the development company's key, one for each gateway."""

    clients: list[httpx.AsyncClient]
    gateway_database: str
    runtime_database: str

    async def session(self, model: str, **config: Any) -> str:
        """A session of the key's owner; there is no registry here to ask for one."""
        me = (await self.clients[0].get("/me/")).json()
        kind = "react_agent" if config.get("tools") else "llm_agent"
        agent = {"name": "Tester", "agent_type": kind, "llm_config": {"model": model}, **config}
        session_id = new_id()
        await execute(
            self.runtime_database,
            "INSERT INTO sessions (id, company_id, owner_id, config, config_hash) VALUES (%s, %s, %s, %s, 'hash')",
            session_id,
            me["company_id"],
            me["user_id"],
            orjson.dumps(agent).decode(),
        )
        return session_id


@pytest.fixture
async def installation(
    infrastructure: Infrastructure, kafka: str, topic_prefix: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Installation]:
    model = ModelStub()
    monkeypatch.setenv("OPENAI_BASE_URL", await model.start())
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    await create_topics(kafka, topic_prefix)
    database = f"test_{secrets.token_hex(6)}"
    runtime_database = await infrastructure.create_migrated(database, RUNTIME_MIGRATIONS)
    runtime = build_runtime(
        RuntimeSettings(
            kafka_bootstrap_servers=kafka,
            topic_prefix=topic_prefix,
            signing_key=SIGNING_KEY,
            database_url=SecretStr(runtime_database),
            port=choose_free(),
            shutdown_grace_seconds=1,
        )
    )
    gateways = [
        gateway_on(database_url, kafka, topic_prefix, f"http://127.0.0.1:{runtime.settings.port}") for _ in range(2)
    ]
    services = [runtime, *gateways]
    running = [asyncio.create_task(service.run()) for service in services]
    for service in services:
        await until_ready(service)
    secret = await ensure_development_key(database_url)
    clients = [client_of(service, secret) for service in gateways]
    yield Installation(clients, database_url, runtime_database)
    for client in clients:
        await client.aclose()
    for service in services:
        service.stop()
    await asyncio.gather(*running)
    await model.stop()
    await infrastructure.drop_database(database)


async def execute(database: str, statement: str, *parameters: Any) -> list[Any]:
    async with await AsyncConnection.connect(database, autocommit=True) as connection:
        cursor = await connection.execute(statement, parameters)
        return await cursor.fetchall() if cursor.description else []
