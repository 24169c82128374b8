"""kill -9 in the middle of commands: each ends exactly once, whatever was lost with the process."""

import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from aiokafka import AIOKafkaConsumer

from deploy.local.ports import choose_free
from libs.contracts.identifiers import new_id
from libs.contracts.messages import envelope_from
from libs.contracts.resources.agents import AgentCreated, CreateAgent
from libs.eventing import KafkaBus
from libs.eventing.administration import create_topics
from libs.persistence import Database
from tests.support.command_records import SIGNING_KEY, command_record
from tests.support.registry import configuration, identity
from tests.support.waiting import WITHIN, until

COMMANDS = 60
HELD = COMMANDS // 6
# Creations are held up, with their transactions open, once some are committed.
HOLD = f"""
    CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF (SELECT count(*) >= {HELD} FROM agents) THEN
            PERFORM pg_advisory_xact_lock_shared(1);
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER hold BEFORE INSERT ON agents FOR EACH ROW EXECUTE FUNCTION hold();
"""


async def start(database_url: str, kafka: str, prefix: str) -> asyncio.subprocess.Process:
    """A registry in a process of its own, ready."""
    port = choose_free()
    environment = {
        **os.environ,
        "AES_REGISTRY_DATABASE_URL": database_url,
        "AES_REGISTRY_PORT": str(port),
        "AES_KAFKA_BOOTSTRAP_SERVERS": kafka,
        "AES_TOPIC_PREFIX": prefix,
        "AES_SIGNING_KEY": SIGNING_KEY,
        "AES_AUTO_MIGRATE": "1",
        "AES_RUNTIME_URL": "",
        "AES_INGESTION_URL": "",
    }
    process = await asyncio.create_subprocess_exec(*(sys.executable, "-m", "services.registry", "all"), env=environment)
    async with httpx.AsyncClient(timeout=30) as http:

        async def ready() -> bool:
            assert process.returncode is None
            try:
                return (await http.get(f"http://127.0.0.1:{port}/health/ready")).status_code == 200
            except httpx.TransportError:
                return False

        await until(ready, pause=0.1)
    return process


async def send_creations(kafka: str, prefix: str) -> set[str]:
    """Put creations of one name on the bus, each with a correlation id of its own; returns their ids."""
    producer = KafkaBus(kafka, prefix=prefix, client_id="test").producer()
    await producer.start()
    await until(lambda: producer.healthy)
    command_ids = set()
    for _ in range(COMMANDS):
        command_id = new_id()
        command = CreateAgent(agent_id=command_id, agent=configuration())
        sent = command_record(command, command_id=command_id, caller=identity(), label=f"creation-{command_id}")
        await producer.send(sent.topic, sent.key, sent.value, sent.headers)
        command_ids.add(command_id)
    await producer.stop()
    return command_ids


@asynccontextmanager
async def events(kafka: str, prefix: str) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        f"{prefix}registry-events",
        bootstrap_servers=kafka,
        group_id=f"{prefix}test",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


@pytest.mark.crash("registry")
@pytest.mark.slow
async def test_a_killed_registry_loses_nothing_and_doubles_nothing(
    database_url: str, kafka: str, topic_prefix: str
) -> None:
    await create_topics(kafka, topic_prefix)
    database = Database(database_url, name="test", timeout=30.0)
    first = await start(database_url, kafka, topic_prefix)
    await database.open()

    async def count(what: str) -> int:
        async with database.connection() as connection:
            row = await (await connection.execute(f"SELECT count(*) FROM {what}")).fetchone()
            return int(row[0])

    await database.execute(HOLD)
    async with database.transaction() as connection:
        await connection.execute("SELECT pg_advisory_xact_lock(1)")
        command_ids = await send_creations(kafka, topic_prefix)
        await until(lambda: database.value("SELECT count(*) >= %s FROM agents", (HELD,)))
        first.kill()
        await first.wait()
    assert HELD <= await count("agents") < COMMANDS

    second = await start(database_url, kafka, topic_prefix)
    outcomes: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    async with events(kafka, topic_prefix) as consumer, asyncio.timeout(WITHIN):
        while outcomes.keys() != command_ids:
            for record in [item for batch in (await consumer.getmany(timeout_ms=200)).values() for item in batch]:
                envelope = envelope_from(record.headers)
                outcomes[envelope.causation_id or ""].add((envelope.type, envelope.id))
        # What the killed one had not marked as sent is swept seconds later, whatever repeats have brought meanwhile.
        await until(lambda: database.value("SELECT NOT EXISTS (SELECT FROM outbox WHERE published_at IS NULL)"))
    second.terminate()

    assert await second.wait() == 0
    assert await count("agents") == COMMANDS
    assert await count("outbox WHERE published_at IS NULL") == 0
    for ends in outcomes.values():
        assert [event_type for event_type, _ in ends] == [AgentCreated.TYPE]
    await database.close()
