"""A sample owner and a caller of it, on the real broker and the real database.

They are started once for a module, whose tests take ids of their own and are marked
``asyncio(loop_scope="module")``. What stops its owner, or needs another bus or database, has fixtures of its own.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr

from deploy.local.ports import choose_free
from libs.contracts.identity import Identity
from libs.contracts.topics import GATEWAY_EVENTS
from libs.eventing import CommandSender, IdentitySigner, KafkaBus
from libs.eventing.administration import create_topics
from libs.eventing.messages import PayloadReader
from libs.persistence import Database
from libs.service_defaults import Service, UpstreamClient
from tests.integration.conftest import new_topic_prefix, own_database
from tests.support import sample_owner
from tests.support.command_records import SIGNING_KEY
from tests.support.infrastructure import Infrastructure
from tests.support.waiting import until

ALICE = Identity(company_id="company-1", user_id="alice", key_id="key-1", scopes=frozenset({"runtime:execute"}))


@dataclass
class Installation:
    """Addresses of everything, and a way to run another replica of the owner."""

    kafka: str
    prefix: str
    database_url: str
    port: int

    def owner(self, port: int | None = None, *, auto_migrate: bool = True) -> Service:
        return sample_owner.build(
            sample_owner.NotesSettings(
                kafka_bootstrap_servers=self.kafka,
                topic_prefix=self.prefix,
                signing_key=SecretStr(SIGNING_KEY),
                auto_migrate=auto_migrate,
                database_url=SecretStr(self.database_url),
                port=port or self.port,
            )
        )


@pytest.fixture
def migrations() -> Path:
    return sample_owner.MIGRATIONS


async def installed(kafka: str, prefix: str, database_url: str) -> Installation:
    await create_topics(kafka, prefix, topics=(*sample_owner.TOPICS, GATEWAY_EVENTS))
    return Installation(kafka, prefix, database_url, choose_free())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation(infrastructure: Infrastructure) -> AsyncIterator[Installation]:
    kafka = await asyncio.to_thread(infrastructure.kafka)
    async with own_database(infrastructure, sample_owner.MIGRATIONS) as url:
        yield await installed(kafka, new_topic_prefix(), url)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def owner(installation: Installation) -> AsyncIterator[Service]:
    async with serving(installation.owner()) as owner:
        yield owner


@asynccontextmanager
async def serving(service: Service) -> AsyncIterator[Service]:
    """Runs the service from its readiness to its end."""
    running = asyncio.create_task(service.run())
    await until_ready(service)
    yield service
    service.stop()
    await running


async def until_ready(service: Service) -> None:
    async def ready() -> bool:
        return all(outcome == "ok" for outcome in (await service.readiness.results()).values())

    await until(ready, pause=0.05)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(installation: Installation, owner: Service) -> AsyncIterator[Database]:
    database = Database(installation.database_url, name="test", timeout=30.0)
    await database.open()
    yield database
    await database.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sender(installation: Installation) -> AsyncIterator[CommandSender]:
    async with caller(installation) as sender:
        yield sender


@asynccontextmanager
async def caller(installation: Installation) -> AsyncIterator[CommandSender]:
    signer = IdentitySigner(SIGNING_KEY)
    bus = KafkaBus(installation.kafka, prefix=installation.prefix)
    producer = bus.producer()
    calls = UpstreamClient({"notes": f"http://127.0.0.1:{installation.port}"}, signer)
    sender = CommandSender(
        bus,
        producer,
        signer,
        calls.command_state,
        PayloadReader(calls.payload),
        source="/aes/test",
        topics=sample_owner.TOPICS,
    )
    await producer.start()
    reading = [asyncio.create_task(reader.run()) for reader in sender.readers]
    await until(lambda: sender.started() and producer.healthy)
    yield sender
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    await producer.stop()
    await calls.stop()
