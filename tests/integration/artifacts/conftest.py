"""The artifacts service on both kinds of object store."""

import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from libs.eventing import KafkaBus
from services.artifacts import bootstrap as artifacts
from services.ingestion import bootstrap as ingestion
from tests.integration.artifacts.world import World, artifact_world
from tests.support.fake_producer import FakeProducer
from tests.support.infrastructure import Infrastructure
from tests.support.s3_server import S3Server

MIGRATIONS = {"artifacts": artifacts.MIGRATIONS, "ingestion": ingestion.MIGRATIONS}


def s3_url(server: S3Server, port: int | None = None) -> str:
    """Address of a bucket of its own; ``port``: port of a proxy in front of the server."""
    bucket = f"bucket-{secrets.token_hex(4)}"
    return f"s3://tests:{server.secret}@127.0.0.1:{port or server.port}/{bucket}?secure=false"


@pytest.fixture
async def databases(infrastructure: Infrastructure) -> AsyncIterator[dict[str, str]]:
    names = {service: f"test_{secrets.token_hex(6)}" for service in MIGRATIONS}
    yield {service: await infrastructure.create_migrated(name, MIGRATIONS[service]) for service, name in names.items()}
    for name in names.values():
        await infrastructure.drop_database(name)


@pytest.fixture
async def world(databases: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """On a local directory."""
    async with artifact_world(databases, f"file:{tmp_path}/objects", tmp_path, _used(monkeypatch)) as made:
        yield made


@pytest.fixture(params=["directory", "s3"])
async def each_store(
    request: pytest.FixtureRequest, databases: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    """On a local directory, and on a real S3 server."""
    url = f"file:{tmp_path}/objects"
    if request.param == "s3":
        url = s3_url(request.getfixturevalue("s3_server"))
    async with artifact_world(databases, url, tmp_path, _used(monkeypatch)) as made:
        yield made


@pytest.fixture
async def s3_world(
    s3_server: S3Server, databases: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    """On a real S3 server."""
    async with artifact_world(databases, s3_url(s3_server), tmp_path, _used(monkeypatch)) as made:
        yield made


def _used(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeProducer], None]:
    return lambda producer: monkeypatch.setattr(KafkaBus, "producer", lambda _: producer)
