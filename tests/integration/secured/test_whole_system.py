"""All services, each coming in as its own user with the rules that it is given: everything works."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from deploy.local.foreground import start
from deploy.local.managed_process import ServiceProcess
from deploy.local.ports import choose_free
from services.gateway.administration import ensure_development_key
from tests.e2e.api import Api, new_client
from tests.support.infrastructure import Infrastructure
from tests.support.secured_kafka import SecuredKafka
from tests.support.waiting import until

SERVICES = ("registry", "runtime", "ingestion", "artifacts", "timeline", "gateway")
GUIDE = b"# Guide\n\nThe ferry to Lerwick leaves at 19:00.\n"
MODEL = "builtin:extractive"


@asynccontextmanager
async def running(parts: list[ServiceProcess]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for started in await asyncio.gather(*(start(part, lambda _: None) for part in parts)):
            stack.callback(started.stop)
        yield


@pytest.fixture
async def databases(infrastructure: Infrastructure) -> AsyncIterator[dict[str, str]]:
    names = {service: f"test_{service}_{secrets.token_hex(4)}" for service in SERVICES}
    yield {service: await infrastructure.create_database(name) for service, name in names.items()}
    for name in names.values():
        await infrastructure.drop_database(name)


def parts_of(broker: SecuredKafka, databases: dict[str, str], directory: Path) -> list[ServiceProcess]:
    ports: dict[str, int] = {}
    for process in (*SERVICES, "streams"):
        ports[process] = choose_free(set(ports.values()))
    addresses = {f"AES_{service.upper()}_URL": f"http://127.0.0.1:{ports[service]}" for service in SERVICES}
    own = {name: value for name, value in os.environ.items() if not name.startswith("AES_")}

    def part(service: str, role: str, port: int) -> ServiceProcess:
        prefix = f"AES_{service.upper()}"
        environment = {
            **own,
            **addresses,
            **broker.environment(f"{service}-kafka"),
            "AES_SIGNING_KEY": "a key of tests that is long enough to sign with",
            "AES_AUTO_MIGRATE": "1",
            f"{prefix}_DATABASE_URL": databases[service],
            f"{prefix}_OBJECTS_URL": f"file:{directory / service}",
            f"{prefix}_PORT": str(port),
            "AES_INGESTION_STREAMS_PORT": str(port),
        }
        return ServiceProcess(
            service, f"{service}-{role}", role, port, directory / f"{service}-{role}.log", environment
        )

    return [
        *(part(service, "all", ports[service]) for service in SERVICES),
        part("ingestion", "streams", ports["streams"]),
    ]


@pytest.mark.slow(
    covered_by=(
        "integration/deploy_local/test_infrastructure.py::test_a_kafka_in_a_directory_of_any_name_lets_nobody_in_without_its_password",
        "unit/eventing/test_kafka.py::test_clients_get_their_user_and_the_trusted_authorities",
    )
)
async def test_everything_is_done_over_a_secured_bus(
    broker: SecuredKafka, databases: dict[str, str], tmp_path: Path
) -> None:
    parts = parts_of(broker, databases, tmp_path)
    gateway = next(part for part in parts if part.service == "gateway")
    async with running(parts):
        key = await ensure_development_key(databases["gateway"], None)
        async with new_client(f"http://127.0.0.1:{gateway.port}", key) as client:
            api = Api(client)
            made = await client.post(
                "/agent/", json={"name": "D", "agent_type": "llm_agent", "llm_config": {"model": MODEL}}
            )
            assert made.status_code == 201, made.text
            session = await api.session(MODEL)
            assert (await api.execute(session, "The lamp is green.")).status_code == 200
            assert [event.name async for event in api.events(session, "Which lamp?")][-1] == "turn.completed"
            await _ingest(api)
            await _upload(api, session)
            assert (await client.delete(f"/sessions/{session}/")).status_code in (200, 202, 204)
    for part in parts:
        assert "AuthorizationFailed" not in part.log.read_text(), part.name


async def _ingest(api: Api) -> None:
    file = (await api.http.post("/files/", files={"file": ("guide.md", GUIDE)})).json()
    base = (await api.http.post("/knowledge-bases/", json={"name": "Guide", "file_ids": [file["id"]]})).json()

    async def completed() -> bool:
        return bool((await api.http.get(f"/knowledge-bases/{base['id']}/")).json()["status"] == "completed")

    await until(completed)


async def _upload(api: Api, session: str) -> None:
    """A document of a session is indexed by another service, which tells of it."""
    place = f"/sessions/{session}/artifacts/"
    reply = await api.http.post(place, files={"file": ("guide.md", GUIDE)})
    assert reply.status_code == 201, reply.text

    async def ready() -> bool:
        path = f"{place}{reply.json()['artifact_id']}/status/"
        return bool((await api.http.get(path)).json().get("processing_status") == "ready")

    await until(ready)
