"""The OpenAPI document against the running services: what it says is what happens."""

import asyncio
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from deploy.local.ports import choose_free
from libs.eventing import create_topics
from libs.service_defaults import Service
from services.gateway import bootstrap as gateway
from services.gateway.administration import ensure_development_key
from services.gateway.settings import GatewaySettings
from services.ingestion import bootstrap as ingestion
from services.ingestion.settings import IngestionSettings
from services.registry import bootstrap as registry
from services.registry.settings import RegistrySettings
from services.runtime import bootstrap as runtime
from services.runtime.settings import RuntimeSettings
from tests.integration.gateway.conftest import SIGNING_KEY, until_ready
from tests.support.infrastructure import Infrastructure

_BUILDERS: dict[str, tuple[Callable[[Any], Service], Any]] = {
    "gateway": (gateway.build, GatewaySettings),
    "registry": (registry.build, RegistrySettings),
    "runtime": (runtime.build, RuntimeSettings),
    "ingestion": (ingestion.build, IngestionSettings),
}


@pytest.fixture
async def base_url(
    infrastructure: Infrastructure, kafka: str, topic_prefix: str, tmp_path: Path
) -> AsyncIterator[tuple[str, str]]:
    """Address and key of all services, run for real."""
    await create_topics(kafka, topic_prefix)
    ports = {name: choose_free() for name in _BUILDERS}
    databases = {name: f"test_{secrets.token_hex(6)}" for name in _BUILDERS}
    urls = {name: await infrastructure.create_database(database) for name, database in databases.items()}
    services = [
        build(
            settings(
                kafka_bootstrap_servers=kafka,
                topic_prefix=topic_prefix,
                signing_key=SIGNING_KEY,
                auto_migrate=True,
                database_url=SecretStr(urls[name]),
                port=ports[name],
                registry_url=f"http://127.0.0.1:{ports['registry']}",
                runtime_url=f"http://127.0.0.1:{ports['runtime']}",
                ingestion_url=f"http://127.0.0.1:{ports['ingestion']}",
                shutdown_grace_seconds=1,
                **({"objects_url": SecretStr(f"file:{tmp_path}/objects")} if name == "ingestion" else {}),
            )
        )
        for name, (build, settings) in _BUILDERS.items()
    ]
    running = [asyncio.create_task(service.run()) for service in services]
    for service in services:
        await until_ready(service)
    yield f"http://127.0.0.1:{ports['gateway']}/api/v1", await ensure_development_key(urls["gateway"])
    for service in services:
        service.stop()
    await asyncio.gather(*running)
    for database in databases.values():
        await infrastructure.drop_database(database)


async def test_schemathesis_finds_nothing(base_url: tuple[str, str], tmp_path: Path) -> None:
    address, secret = base_url
    program = shutil.which("schemathesis", path=str(Path(sys.executable).parent))
    assert program is not None
    # One idempotency key with two bodies is refused, by design: that is a valid request by schema alone.
    arguments = [
        *("run", f"{address}/openapi.json", "--header", f"x-api-key: {secret}", "--no-color"),
        *("--phases", "examples,coverage,fuzzing", "--max-examples", "4", "--request-timeout", "30"),
        *("--exclude-checks", "positive_data_acceptance", "--suppress-health-check", "all", "--seed", "1"),
    ]
    process = await asyncio.create_subprocess_exec(
        program, *arguments, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()[-8000:]
