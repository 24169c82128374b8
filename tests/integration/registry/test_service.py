"""The whole registry on a real broker, followed from outside by the consumer in ``examples``."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr

from libs.contracts.identifiers import new_id
from libs.contracts.messages import Command
from libs.contracts.resources.agents import CreateAgent, UpdateAgent
from libs.eventing.administration import create_topics
from libs.service_defaults import Service
from services.registry.bootstrap import MIGRATIONS, build
from services.registry.settings import RegistrySettings
from tests.integration.conftest import new_topic_prefix, own_database
from tests.support.command_records import SIGNING_KEY, command_record, unchecked
from tests.support.infrastructure import Infrastructure
from tests.support.registry import configuration, identity
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
EXAMPLE = Path(__file__).parents[3] / "examples" / "consume_events.py"


@dataclass
class RunningRegistry:
    service: Service
    kafka: str
    prefix: str

    async def send(self, command: Command, *, correlation_id: str, command_id: str) -> None:
        sent = command_record(command, command_id=command_id, caller=identity(), label=correlation_id)
        await (await self.service.producer.send(sent.topic, sent.key, sent.value, sent.headers))

    async def ended(self, command_id: str) -> None:
        """Wait until a command has its outcome."""
        await until(lambda: self.service.outbox.outcome(command_id), pause=0.05)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def registry(infrastructure: Infrastructure) -> AsyncIterator[RunningRegistry]:
    kafka, topic_prefix = await asyncio.to_thread(infrastructure.kafka), new_topic_prefix()
    await create_topics(kafka, topic_prefix)
    async with (
        own_database(infrastructure, MIGRATIONS) as url,
        running_registry(url, kafka, topic_prefix) as registry,
    ):
        yield registry


@asynccontextmanager
async def running_registry(database_url: str, kafka: str, topic_prefix: str) -> AsyncIterator[RunningRegistry]:
    settings = RegistrySettings.model_validate(
        {
            "database_url": SecretStr(database_url),
            "signing_key": SecretStr(SIGNING_KEY),
            "kafka_bootstrap_servers": kafka,
            "topic_prefix": topic_prefix,
            "auto_migrate": True,
            "runtime_url": "",
            "ingestion_url": "",
        }
    )
    service = build(settings)
    running = asyncio.create_task(service.run())
    await until(lambda: service.producer.healthy or running.done())
    assert not running.done(), running.result()
    yield RunningRegistry(service, kafka, topic_prefix)
    service.stop()
    await running


async def follow(*options: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLE),
        *options,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@pytest.mark.slow(covered_by="e2e/test_readme.py::test_the_quickstart_with_curl")
async def test_an_outside_consumer_sees_each_event_of_its_correlation_once(registry: RunningRegistry) -> None:
    agent_id, created, refused = new_id(), new_id(), new_id()
    create = CreateAgent(agent_id=agent_id, agent=configuration(name="Desk"))
    await registry.send(create, correlation_id="mine", command_id=created)
    await registry.ended(created)
    await registry.send(create, correlation_id="mine", command_id=created)
    await registry.send(
        CreateAgent(agent_id=new_id(), agent=configuration(name="Elsewhere")),
        correlation_id="other",
        command_id=new_id(),
    )
    await registry.send(
        unchecked(UpdateAgent, agent_id=agent_id, changes={"nmae": "x"}), correlation_id="mine", command_id=refused
    )
    await registry.ended(refused)

    code, out, err = await follow(
        *("--bootstrap-servers", registry.kafka, "--prefix", registry.prefix, "--correlation-id", "mine"),
        *("--from-beginning", "--timeout", "4"),
    )

    assert (code, err.strip()) == (0, "Following mine …")
    lines = [line.split(maxsplit=3) for line in out.splitlines()]
    assert [line[1:3] for line in lines] == [
        ["registry", "agent.created"],
        ["registry", "update_agent.rejected"],
    ]
    assert re.fullmatch(r"desk-[a-z0-9]{6} 1\.0\.0", lines[0][3])
    assert "nmae" in lines[1][3]
    assert lines[0][0].endswith("Z")


async def test_a_consumer_is_told_what_is_wrong(registry: RunningRegistry) -> None:
    nothing = await follow(
        *("--bootstrap-servers", registry.kafka, "--prefix", registry.prefix),
        *("--correlation-id", "none", "--timeout", "1"),
    )
    no_topics = await follow(*("--bootstrap-servers", registry.kafka, "--prefix", "nowhere-", "--correlation-id", "x"))
    no_kafka = await follow("--bootstrap-servers", "127.0.0.1:1", "--correlation-id", "x")

    assert nothing[0] == 3, nothing[2]
    assert "No event with correlation ID none within 1 s; use --from-beginning" in nothing[2]
    assert no_topics[0] == 1
    assert "no event topics with the prefix 'nowhere-'" in no_topics[2]
    assert no_kafka[0] == 1
    assert "Kafka at 127.0.0.1:1 doesn't respond" in no_kafka[2]
    assert "Traceback" not in no_kafka[2]
