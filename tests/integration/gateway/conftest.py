"""Two replicas of the gateway before an upstream or a real runtime, on the real broker and databases."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import pytest_asyncio
from psycopg import AsyncConnection
from pydantic import SecretStr

from deploy.local.ports import choose_free
from libs.contracts.identifiers import new_id
from libs.eventing.administration import create_topics
from libs.service_defaults import Service
from services.gateway.administration import administration
from services.gateway.bootstrap import MIGRATIONS, build
from services.gateway.domain.accounts import OPERATOR_SCOPES
from services.gateway.settings import GatewaySettings
from services.gateway.use_cases import principals
from services.runtime.bootstrap import MIGRATIONS as RUNTIME_MIGRATIONS
from services.runtime.bootstrap import build as build_runtime
from services.runtime.settings import RuntimeSettings
from services.timeline.bootstrap import MIGRATIONS as TIMELINE_MIGRATIONS
from services.timeline.bootstrap import build as build_timeline
from services.timeline.settings import TimelineSettings
from tests.integration.gateway.upstream import Upstream, UpstreamSettings, UpstreamWork
from tests.servers.model_stub import ModelStub
from tests.support import sample_owner
from tests.support.infrastructure import Infrastructure
from tests.support.waiting import WITHIN, until

SIGNING_KEY = SecretStr("k" * 40)
IN_ONE_LOOP = pytest.mark.asyncio(loop_scope="module")
"""Marks modules whose tests share services, which live as long as their event loop."""


async def until_ready(service: Service) -> None:
    async def ready() -> bool:
        return all(outcome == "ok" for outcome in (await service.readiness.results()).values())

    await until(ready)


def gateway_on(database_url: str, kafka: str, prefix: str, upstream_url: str = "", timeline_url: str = "") -> Service:
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
            timeline_url=timeline_url,
            shutdown_grace_seconds=1,
        )
    )


@asynccontextmanager
async def timeline_beside(infrastructure: Infrastructure, kafka: str, prefix: str) -> AsyncIterator[Service]:
    """A timeline that is not running yet, with a database of its own."""
    async with database_with(infrastructure, TIMELINE_MIGRATIONS) as database_url:
        yield build_timeline(
            TimelineSettings(
                kafka_bootstrap_servers=kafka,
                topic_prefix=prefix,
                signing_key=SIGNING_KEY,
                database_url=SecretStr(database_url),
                port=choose_free(),
                shutdown_grace_seconds=1,
            )
        )


def url_of(service: Service) -> str:
    return f"http://127.0.0.1:{service.settings.port}"


def client_of(service: Service, secret: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{service.settings.port}/api/v1", headers={"x-api-key": secret}, timeout=WITHIN
    )


@pytest.fixture
def migrations() -> Path:
    return MIGRATIONS


@asynccontextmanager
async def running(*services: Service) -> AsyncIterator[None]:
    """The services, ready; they stop at the end."""
    tasks = [asyncio.create_task(service.run()) for service in services]
    for service in services:
        await until_ready(service)
    yield
    for service in services:
        service.stop()
    await asyncio.gather(*tasks)


@asynccontextmanager
async def database_with(infrastructure: Infrastructure, migrations: Path) -> AsyncIterator[str]:
    name = f"test_{secrets.token_hex(6)}"
    yield await infrastructure.create_migrated(name, migrations)
    await infrastructure.drop_database(name)


@asynccontextmanager
async def clients_of_a_company(gateways: list[Service], database_url: str) -> AsyncIterator["Clients"]:
    """One client for each gateway, with the key of a new company, which has no limit."""
    async with administration(database_url) as administrator:
        company = await administrator.create_company(new_id(), rate_limit=None)
        await administrator.create_user(company.id, "developer")
        issued = await administrator.create_key(company.id, "developer", scopes=OPERATOR_SCOPES)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client_of(service, issued.secret)) for service in gateways]
        yield Clients(clients, issued.secret, company.id, issued.key.user_id)


@dataclass(frozen=True)
class Clients:
    """Clients with one key, whose it is, and its secret."""

    clients: list[httpx.AsyncClient]
    secret: str
    company_id: str
    user_id: str


@dataclass(frozen=True)
class TwoGateways:
    """Two gateways before an upstream."""

    services: list[Service]
    upstream: Upstream
    timeline: Service
    database_url: str


@dataclass(frozen=True)
class Replicas(Clients):
    """Two gateways; ``clients`` use the key of a company of the test's own, one for each of them."""

    services: list[Service]
    upstream: Upstream
    work: UpstreamWork
    """The work that the upstream has carried out for this company."""
    timeline: Service
    database_url: str


@asynccontextmanager
async def two_gateways(infrastructure: Infrastructure, kafka: str) -> AsyncIterator[TwoGateways]:
    prefix = f"t{secrets.token_hex(4)}-"
    await create_topics(kafka, prefix)
    async with (
        database_with(infrastructure, sample_owner.MIGRATIONS) as upstream_database,
        database_with(infrastructure, MIGRATIONS) as database_url,
        timeline_beside(infrastructure, kafka, prefix) as timeline,
    ):
        upstream = Upstream(
            UpstreamSettings(
                kafka_bootstrap_servers=kafka,
                topic_prefix=prefix,
                signing_key=SIGNING_KEY,
                auto_migrate=True,
                database_url=SecretStr(upstream_database),
                port=choose_free(),
                shutdown_grace_seconds=1,
            )
        )
        urls = url_of(upstream.service), url_of(timeline)
        gateways = [gateway_on(database_url, kafka, prefix, *urls) for _ in range(2)]
        async with running(upstream.service, timeline, *gateways):
            yield TwoGateways(gateways, upstream, timeline, database_url)


@asynccontextmanager
async def replicas_of(gateways: TwoGateways) -> AsyncIterator[Replicas]:
    async with clients_of_a_company(gateways.services, gateways.database_url) as own:
        yield Replicas(
            **vars(own),
            services=gateways.services,
            upstream=gateways.upstream,
            work=gateways.upstream.work_of(own.company_id),
            timeline=gateways.timeline,
            database_url=gateways.database_url,
        )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateways(infrastructure: Infrastructure, kafka: str) -> AsyncIterator[TwoGateways]:
    """Shared by the tests of a module, which run in one loop: see ``IN_ONE_LOOP``."""
    async with two_gateways(infrastructure, kafka) as gateways:
        yield gateways


@pytest_asyncio.fixture(loop_scope="module")
async def replicas(gateways: TwoGateways) -> AsyncIterator[Replicas]:
    async with replicas_of(gateways) as replicas:
        yield replicas


@pytest_asyncio.fixture(loop_scope="module")
async def stoppable_replicas(infrastructure: Infrastructure, kafka: str) -> AsyncIterator[Replicas]:
    """Gateways of the test's own, for tests that stop one."""
    async with two_gateways(infrastructure, kafka) as gateways, replicas_of(gateways) as replicas:
        yield replicas


@pytest.fixture
def lasting_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gateways' cached keys don't expire, so that they are only dropped because an event said so, however late."""
    monkeypatch.setattr(principals, "CACHE_SECONDS", 3600.0)


@dataclass(frozen=True)
class RuntimeAndGateways:
    """Two gateways and a runtime."""

    services: list[Service]
    gateway_database: str
    runtime_database: str
    timeline_database: str


@dataclass(frozen=True)
class Installation(Clients):
    """Two gateways and a runtime; ``clients`` use the key of a company of the test's own, one for each gateway."""

    timeline_database: str
    runtime_database: str

    async def session(self, model: str, **config: Any) -> str:
        """A session of the key's owner; there is no registry here to ask for one."""
        kind = "react_agent" if config.get("tools") else "llm_agent"
        agent = {"name": "Tester", "agent_type": kind, "llm_config": {"model": model}, **config}
        session_id = new_id()
        await execute(
            self.runtime_database,
            "INSERT INTO sessions (id, company_id, owner_id, config, config_hash) VALUES (%s, %s, %s, %s, 'hash')",
            session_id,
            self.company_id,
            self.user_id,
            orjson.dumps(agent).decode(),
        )
        return session_id


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime_and_gateways(infrastructure: Infrastructure, kafka: str) -> AsyncIterator[RuntimeAndGateways]:
    """Shared by the tests of a module, which run in one loop: see ``IN_ONE_LOOP``."""
    prefix, model = f"t{secrets.token_hex(4)}-", ModelStub()
    await create_topics(kafka, prefix)
    async with (
        database_with(infrastructure, RUNTIME_MIGRATIONS) as runtime_database,
        database_with(infrastructure, MIGRATIONS) as gateway_database,
        timeline_beside(infrastructure, kafka, prefix) as timeline,
    ):
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("OPENAI_BASE_URL", await model.start())
            environment.setenv("OPENAI_API_KEY", "sk-of-the-tests")
            runtime = build_runtime(
                RuntimeSettings(
                    kafka_bootstrap_servers=kafka,
                    topic_prefix=prefix,
                    signing_key=SIGNING_KEY,
                    database_url=SecretStr(runtime_database),
                    port=choose_free(),
                    shutdown_grace_seconds=1,
                )
            )
            urls = url_of(runtime), url_of(timeline)
            gateways = [gateway_on(gateway_database, kafka, prefix, *urls) for _ in range(2)]
            async with running(runtime, timeline, *gateways):
                timeline_database = timeline.settings.database_url.get_secret_value()
                yield RuntimeAndGateways(gateways, gateway_database, runtime_database, timeline_database)
    await model.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def installation(runtime_and_gateways: RuntimeAndGateways) -> AsyncIterator[Installation]:
    shared = runtime_and_gateways
    async with clients_of_a_company(shared.services, shared.gateway_database) as own:
        yield Installation(
            **vars(own), timeline_database=shared.timeline_database, runtime_database=shared.runtime_database
        )


async def execute(database: str, statement: str, *parameters: Any) -> list[Any]:
    async with await AsyncConnection.connect(database, autocommit=True) as connection:
        cursor = await connection.execute(statement, parameters)
        return await cursor.fetchall() if cursor.description else []
