"""Creates the declared topics in a cluster; existing ones are left as they are."""

import asyncio
from collections.abc import Sequence
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, for_code

from libs.contracts.topics import MAX_MESSAGE_BYTES, TOPICS, Topic, with_dead_letters
from libs.eventing._bus import BusUnavailable

_TIMEOUT_MS: Final = 30_000
_ALREADY_EXISTS: Final = 36


async def create_topics(
    bootstrap_servers: str, prefix: str = "", *, topics: Sequence[Topic] = TOPICS, replication: int = 1
) -> None:
    """Create missing topics and their dead letters. Raises ``BusUnavailable`` with what the broker said."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers, request_timeout_ms=_TIMEOUT_MS)
    try:
        async with asyncio.timeout(_TIMEOUT_MS / 1000):
            await admin.start()
            existing = set(await admin.list_topics())
            missing = [topic for topic in with_dead_letters(topics) if prefix + topic.name not in existing]
            if missing:
                response = await admin.create_topics(
                    [_declaration(topic, prefix, replication) for topic in missing], timeout_ms=_TIMEOUT_MS
                )
                _check(response.topic_errors)
    except (KafkaError, OSError, TimeoutError) as problem:
        raise BusUnavailable(f"the topics could not be created: {problem!r}") from problem
    finally:
        await admin.close()


def _declaration(topic: Topic, prefix: str, replication: int) -> NewTopic:
    return NewTopic(
        name=prefix + topic.name,
        num_partitions=topic.partitions,
        replication_factor=replication,
        topic_configs={
            "retention.ms": str(topic.retention_ms),
            "segment.ms": str(topic.segment_ms),
            "max.message.bytes": str(MAX_MESSAGE_BYTES + 64 * 1024),
        },
    )


def _check(errors: list[tuple[object, ...]]) -> None:
    for name, code, *message in errors:
        if code and code != _ALREADY_EXISTS:
            raise BusUnavailable(f"topic {name}: {for_code(code).__name__} {message}")
