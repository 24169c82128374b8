"""Limits the time that an operator's question to Kafka may take."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from libs.contracts.errors import ServiceUnavailable
from libs.eventing import BusUnavailable

_log = structlog.get_logger("operations")


@asynccontextmanager
async def answered_within(seconds: float) -> AsyncIterator[None]:
    """Raises ``ServiceUnavailable`` when Kafka cannot be reached, refuses, or takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except (BusUnavailable, TimeoutError) as problem:
        # Addresses and names of users are for the log only.
        _log.warning("operations.kafka_unavailable", problem=str(problem) or type(problem).__name__)
        raise ServiceUnavailable("Kafka cannot be asked now; the gateway's log says why.", retry_after=5) from problem
