"""Checks that Kafka answers, has the declared topics and a correct clock."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

from cli.bus_address import BusAddress
from cli.doctor.findings import Check, Finding, compare_clocks, failed, ok, skipped, warning
from cli.doctor.replication import expected_replication, replication_findings
from libs.contracts.topics import with_dead_letters
from libs.eventing import connection_diagnostics

_REACH = (
    "Start the broker, or set AES_KAFKA_BOOTSTRAP_SERVERS to where it is, and the other AES_KAFKA_… variables to how "
    "it lets one in. Check the network in between."
)


def bus_checks(address: BusAddress) -> list[Check]:
    return [
        Check("kafka", lambda: _brokers_and_topics(address), _REACH),
        Check("clock of kafka", lambda: _clock(address), _REACH),
    ]


async def _brokers_and_topics(address: BusAddress) -> list[Finding]:
    async with _admin(address) as admin:
        cluster = await admin.describe_cluster()
        there = {topic["topic"]: topic["partitions"] for topic in await admin.describe_topics()}
        declared = [address.prefix + topic.name for topic in with_dead_letters()]
        least = await _least_in_sync(admin, [name for name in declared if name in there])
    brokers = len(cluster["brokers"])
    how = "" if address.kafka.security_protocol == "plaintext" else f", {address.kafka.security_protocol}"
    answering = ok("kafka", f"{brokers} broker{'s' if brokers != 1 else ''} at {address.servers}{how}")
    expected = expected_replication(brokers)
    return [
        answering,
        *_topics(there, address.prefix),
        *_replicas(there, address.prefix),
        *replication_findings({name: len(there[name][0]["replicas"]) for name in least}, least, expected),
    ]


async def _least_in_sync(admin: AIOKafkaAdminClient, topics: list[str]) -> dict[str, int]:
    """Reads each topic's `min.insync.replicas`."""
    if not topics:
        return {}
    asked = [ConfigResource(ConfigResourceType.TOPIC, topic, {"min.insync.replicas": None}) for topic in topics]
    found = [entry for response in await admin.describe_configs(asked) for entry in response.resources]
    return {name: int(settings[0][1]) for _, _, _, name, settings in found if settings}


def _topics(there: dict[str, list[Any]], prefix: str) -> list[Finding]:
    declared = {prefix + topic.name: topic.partitions for topic in with_dead_letters()}
    missing = sorted(declared.keys() - there.keys())
    other = [name for name in declared if name in there and len(there[name]) != declared[name]]
    findings = []
    if missing:
        findings.append(failed("topics", f"missing: {', '.join(missing)}", "Run: ./aes topics create"))
    for name in other:
        findings.append(
            failed(
                f"topic {name}",
                f"{len(there[name])} partitions, declared are {declared[name]}",
                "Let its consumers finish, stop the services, delete the topic and run: ./aes topics create. "
                "Changing the number in place would break the order of what is under way.",
            )
        )
    return findings or [ok("topics", f"all {len(declared)} with their partitions")]


def _replicas(there: dict[str, list[Any]], prefix: str) -> list[Finding]:
    behind = sorted(
        name
        for name, partitions in there.items()
        if name.startswith(prefix) and any(len(part["isr"]) < len(part["replicas"]) for part in partitions)
    )
    if not behind:
        return []
    return [warning("replicas", f"not all are in sync: {', '.join(behind)}", "See to the broker that is away or slow.")]


async def _clock(address: BusAddress) -> list[Finding]:
    """Reads the broker's clock from the timestamp of a message in a temporary topic."""
    topic = f"{address.prefix}doctor-{secrets.token_hex(4)}"
    made = NewTopic(
        topic, num_partitions=1, replication_factor=1, topic_configs={"message.timestamp.type": "LogAppendTime"}
    )
    async with _admin(address) as admin:
        response = await admin.create_topics([made])
        for _, code, *_ in response.topic_errors:
            if code:
                return [skipped("clock of kafka", f"a topic to try it with cannot be made: {for_code(code).__name__}")]
        try:
            before, theirs, after = await _timed_message(address, topic)
        finally:
            await admin.delete_topics([topic])
    return [compare_clocks("clock of kafka", theirs, before, after)]


async def _timed_message(address: BusAddress, topic: str) -> tuple[float, float, float]:
    producer = AIOKafkaProducer(**address.kafka.options())
    await producer.start()
    try:
        # A new topic delays its first message; the second one arrives at once.
        await producer.send_and_wait(topic, b"")
        before = time.time()
        written = await producer.send_and_wait(topic, b"")
        return before, written.timestamp / 1000, time.time()
    finally:
        await producer.stop()


@asynccontextmanager
async def _admin(address: BusAddress) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(**address.kafka.options(), client_id="aes-cli")
    try:
        async with asyncio.timeout(20):
            await admin.start()
        yield admin
    except KafkaError as problem:
        raise OSError(await connection_diagnostics(address.kafka) or f"{address.servers}: {problem}") from problem
    finally:
        await admin.close()
