"""Checks Kafka: its connection, the declared topics and their replicas, and its clock."""

import os
import secrets
import time
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from cli.doctor.findings import Check, Finding, compare_clocks, failed, ok, skipped, warning
from cli.installation import BusAddress
from libs.contracts.topics import with_dead_letters
from libs.eventing.administration import Replication, kafka_admin

_REACH = (
    "Start the broker, or check AES_KAFKA_BOOTSTRAP_SERVERS, the other AES_KAFKA_… variables and the network between "
    "this machine and the broker."
)

_MOVE = (
    "Raise the number of replicas with kafka-reassign-partitions, and min.insync.replicas with kafka-configs --alter. "
    "With Strimzi, change the KafkaTopic resources."
)


def bus_checks(address: BusAddress) -> list[Check]:
    return [
        Check("kafka", lambda: _brokers_and_topics(address), _REACH),
        Check("clock of kafka", lambda: _clock(address), _REACH),
    ]


async def _brokers_and_topics(address: BusAddress) -> list[Finding]:
    async with kafka_admin(address.kafka, client_id="aes-cli") as admin:
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
    """Returns each topic's `min.insync.replicas`."""
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
                f"partitions: {len(there[name])} instead of {declared[name]}",
                "Let its consumers finish, stop the services, delete the topic and run: ./aes topics create. "
                "Changing the number of partitions in place breaks the order of messages.",
            )
        )
    return findings or [ok("topics", f"all {len(declared)} exist, with the declared partitions")]


def _replicas(there: dict[str, list[Any]], prefix: str) -> list[Finding]:
    behind = sorted(
        name
        for name, partitions in there.items()
        if name.startswith(prefix) and any(len(part["isr"]) < len(part["replicas"]) for part in partitions)
    )
    if not behind:
        return []
    return [
        warning(
            "replicas", f"not all replicas are in sync: {', '.join(behind)}", "Check for a broker that is down or slow."
        )
    ]


async def _clock(address: BusAddress) -> list[Finding]:
    """Checks the broker's clock, by the timestamp of a message in a temporary topic."""
    topic = f"{address.prefix}doctor-{secrets.token_hex(4)}"
    made = NewTopic(
        topic, num_partitions=1, replication_factor=1, topic_configs={"message.timestamp.type": "LogAppendTime"}
    )
    async with kafka_admin(address.kafka, client_id="aes-cli") as admin:
        response = await admin.create_topics([made])
        for _, code, *_ in response.topic_errors:
            if code:
                return [skipped("clock of kafka", f"couldn't create a temporary topic: {for_code(code).__name__}")]
        try:
            before, theirs, after = await _timed_message(address, topic)
        finally:
            await admin.delete_topics([topic])
    return [compare_clocks("clock of kafka", theirs, before, after)]


async def _timed_message(address: BusAddress, topic: str) -> tuple[float, float, float]:
    producer = AIOKafkaProducer(**address.kafka.options())
    await producer.start()
    try:
        # A new topic delays its first message, so the second one is measured.
        await producer.send_and_wait(topic, b"")
        before = time.time()
        written = await producer.send_and_wait(topic, b"")
        return before, written.timestamp / 1000, time.time()
    finally:
        await producer.stop()


def expected_replication(brokers: int) -> Replication | None:
    """Returns the replication that topics should have, or None if a single broker is enough.

    By default, that's three replicas for three or more brokers. Raises ValueError if a variable is invalid.
    """
    factor = os.environ.get("AES_KAFKA_REPLICATION_FACTOR")
    in_sync = os.environ.get("AES_KAFKA_MIN_INSYNC_REPLICAS")
    if factor:
        return Replication.of(int(factor), int(in_sync) if in_sync else None)
    return Replication.of(3) if brokers >= 3 else None


def replication_findings(
    factors: Mapping[str, int], in_sync: Mapping[str, int], expected: Replication | None
) -> list[Finding]:
    """Compares the topics' replicas (``factors``) and `min.insync.replicas` (``in_sync``) with the expected values."""
    if expected is None:
        return []
    fewer = sorted(name for name, factor in factors.items() if factor < expected.factor)
    loose = sorted(name for name, least in in_sync.items() if least < expected.in_sync)
    # If every replica must confirm a write, one unreachable broker stops all writes.
    tight = sorted(name for name, least in in_sync.items() if least > 1 and least >= factors[name])
    findings = []
    if fewer:
        findings.append(warning("replication", f"fewer than {expected.factor} replicas: {', '.join(fewer)}", _MOVE))
    if loose:
        message = f"min.insync.replicas below {expected.in_sync}: {', '.join(loose)}"
        findings.append(warning("replication", message, _MOVE))
    if tight:
        message = f"min.insync.replicas doesn't allow a broker to fail: {', '.join(tight)}"
        findings.append(warning("replication", message, _MOVE))
    good = f"replication factor {expected.factor}, min.insync.replicas {expected.in_sync}"
    return findings or [ok("replication", good)]
