"""Admin clients of Kafka."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from libs.eventing._bus import BusUnavailable
from libs.eventing._kafka_connection import KafkaConnection, connection_diagnostics

_SECONDS: Final = 30.0


@asynccontextmanager
async def kafka_admin(connection: KafkaConnection, *, client_id: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """Raises ``BusUnavailable`` with the reason when the broker cannot be reached, or fails meanwhile."""
    admin = AIOKafkaAdminClient(**connection.options(), client_id=client_id, request_timeout_ms=int(_SECONDS * 1000))
    try:
        async with asyncio.timeout(_SECONDS):
            await admin.start()
        yield admin
    except (KafkaError, OSError, TimeoutError) as problem:
        reason = await connection_diagnostics(connection) or str(problem) or type(problem).__name__
        raise BusUnavailable(f"Kafka at {connection.servers} does not do as asked: {reason}") from problem
    finally:
        await admin.close()


@asynccontextmanager
async def kafka_admin_and_consumer(
    connection: KafkaConnection, *, client_id: str, **options: Any
) -> AsyncIterator[tuple[AIOKafkaAdminClient, AIOKafkaConsumer]]:
    """As ``kafka_admin``, with a consumer that is in no group. ``options``: the consumer's, beside the connection's."""
    consumer = AIOKafkaConsumer(**connection.options(), enable_auto_commit=False, client_id=client_id, **options)
    async with kafka_admin(connection, client_id=client_id) as admin:
        try:
            async with asyncio.timeout(_SECONDS):
                await consumer.start()
            yield admin, consumer
        finally:
            await consumer.stop()
