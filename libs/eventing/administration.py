"""Kafka administration: opens admin clients and creates the declared topics."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, for_code

from libs.contracts.topics import MAX_MESSAGE_BYTES, TOPICS, Topic, with_dead_letters
from libs.eventing._kafka_connection import KafkaConnection
from libs.eventing.bus import BusUnavailable

_SECONDS: Final = 30.0
_KNOWN_SECONDS: Final = 0.05
_ALREADY_EXISTS: Final = 36


@asynccontextmanager
async def kafka_admin(connection: KafkaConnection, *, client_id: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """Opens an admin client. Raises ``BusUnavailable`` if the broker fails or can't be reached."""
    admin = AIOKafkaAdminClient(**connection.options(), client_id=client_id, request_timeout_ms=int(_SECONDS * 1000))
    try:
        async with asyncio.timeout(_SECONDS):
            await admin.start()
        yield admin
    except (KafkaError, OSError, TimeoutError) as problem:
        reason = await connection.refusal() or str(problem) or type(problem).__name__
        raise BusUnavailable(f"Kafka at {connection.servers} failed: {reason}") from problem
    finally:
        await admin.close()


@asynccontextmanager
async def kafka_admin_and_consumer(
    connection: KafkaConnection, *, client_id: str, **options: Any
) -> AsyncIterator[tuple[AIOKafkaAdminClient, AIOKafkaConsumer]]:
    """Opens an admin client and a consumer without a group. ``options`` are further arguments for the consumer."""
    consumer = AIOKafkaConsumer(**connection.options(), enable_auto_commit=False, client_id=client_id, **options)
    async with kafka_admin(connection, client_id=client_id) as admin:
        try:
            async with asyncio.timeout(_SECONDS):
                await consumer.start()
            yield admin, consumer
        finally:
            await consumer.stop()


@dataclass(frozen=True)
class Replication:
    """The replication of topics: ``factor`` brokers store a message, and ``in_sync`` of them must acknowledge it."""

    factor: int
    in_sync: int

    @classmethod
    def of(cls, factor: int, in_sync: int | None = None) -> "Replication":
        """By default, one broker may fail. Raises ``ValueError`` unless ``in_sync`` is from 1 to ``factor``."""
        least = in_sync if in_sync is not None else max(1, factor - 1)
        if not 1 <= least <= factor:
            raise ValueError(f"The number of in-sync replicas must be from 1 to {factor}, not {least}")
        return cls(factor, least)


_ALONE: Final = Replication(1, 1)


async def create_topics(
    connection: KafkaConnection | str,
    prefix: str = "",
    *,
    topics: Sequence[Topic] = TOPICS,
    replication: Replication = _ALONE,
) -> None:
    """Creates missing topics, including dead-letter topics, and waits until the brokers list them.

    Raises ``BusUnavailable``.
    """
    broker = KafkaConnection.of(connection)
    async with kafka_admin(broker, client_id="aes-topics") as admin, asyncio.timeout(_SECONDS):
        existing = set(await admin.list_topics())
        missing = [topic for topic in with_dead_letters(topics) if prefix + topic.name not in existing]
        if missing:
            response = await admin.create_topics(
                [_declaration(topic, prefix, replication) for topic in missing], timeout_ms=int(_SECONDS * 1000)
            )
            _check(response.topic_errors)
            # A group member that joins before the broker knows the topics gets no partitions for minutes.
            created = {prefix + topic.name for topic in missing}
            while not created <= set(await admin.list_topics()):
                await asyncio.sleep(_KNOWN_SECONDS)


def _declaration(topic: Topic, prefix: str, replication: Replication) -> NewTopic:
    return NewTopic(
        name=prefix + topic.name,
        num_partitions=topic.partitions,
        replication_factor=replication.factor,
        topic_configs={
            "min.insync.replicas": str(replication.in_sync),
            "retention.ms": str(topic.retention_ms),
            "segment.ms": str(topic.segment_ms),
            "max.message.bytes": str(MAX_MESSAGE_BYTES + 64 * 1024),
        },
    )


def _check(errors: list[tuple[object, ...]]) -> None:
    for name, code, *message in errors:
        if code and code != _ALREADY_EXISTS:
            raise BusUnavailable(f"topic {name}: {for_code(code).__name__} {message}")
