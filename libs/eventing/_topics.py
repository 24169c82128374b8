"""Creates the declared topics in a cluster; leaves existing ones unchanged."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiokafka.admin import NewTopic
from aiokafka.errors import for_code

from libs.contracts.topics import MAX_MESSAGE_BYTES, TOPICS, Topic, with_dead_letters
from libs.eventing._admin import kafka_admin
from libs.eventing._bus import BusUnavailable
from libs.eventing._kafka_connection import KafkaConnection

_TIMEOUT_MS: Final = 30_000
_KNOWN_SECONDS: Final = 0.05
_ALREADY_EXISTS: Final = 36


@dataclass(frozen=True)
class Replication:
    """``factor`` brokers keep each message; ``in_sync`` of them must have it before it counts as sent."""

    factor: int
    in_sync: int

    @classmethod
    def of(cls, factor: int, in_sync: int | None = None) -> "Replication":
        """By default one broker may be away. Raises ValueError."""
        least = in_sync if in_sync is not None else max(1, factor - 1)
        if not 1 <= least <= factor:
            raise ValueError(f"of {factor} replicas {least} can never be in sync")
        return cls(factor, least)


_ALONE: Final = Replication(1, 1)


async def create_topics(
    connection: KafkaConnection | str,
    prefix: str = "",
    *,
    topics: Sequence[Topic] = TOPICS,
    replication: Replication = _ALONE,
) -> None:
    """Create missing topics and their dead letters, and wait until they are known.

    Raises ``BusUnavailable`` with the broker's reason.
    """
    broker = KafkaConnection.of(connection)
    async with kafka_admin(broker, client_id="aes-topics") as admin, asyncio.timeout(_TIMEOUT_MS / 1000):
        existing = set(await admin.list_topics())
        missing = [topic for topic in with_dead_letters(topics) if prefix + topic.name not in existing]
        if missing:
            response = await admin.create_topics(
                [_declaration(topic, prefix, replication) for topic in missing], timeout_ms=_TIMEOUT_MS
            )
            _check(response.topic_errors)
            # A member of a group that joins before its broker knows them is assigned nothing for minutes.
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
