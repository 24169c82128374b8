"""What every service tells Prometheus about its outbox, its consumers and its database."""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog
from prometheus_client import Gauge

from libs.eventing import BusUnavailable, ConsumerLoop, Publisher, Sweeper
from libs.persistence import Database

_log = structlog.get_logger("service")
_MEASURE_SECONDS: Final = 5.0
_HELD: Final = Gauge("aes_outbox_held_subjects", "Subjects whose events wait for the sweeper.", ["service"])
_WAITING: Final = Gauge("aes_outbox_waiting_events", "Events that are recorded and not sent yet.", ["service"])
_OLDEST: Final = Gauge("aes_outbox_oldest_seconds", "How long the oldest of them waits.", ["service"])
_DATABASE_WAITING: Final = Gauge(
    "aes_database_waiting_requests", "Pieces of work that wait for a connection to the database.", ["service"]
)


def watch_stores(service: str, publisher: Publisher, sweeper: Sweeper, database: Database) -> None:
    """Report these from now on. What waits in the outbox is counted by the sweeper, so in processes of role ``api``."""
    _HELD.labels(service).set_function(lambda: len(publisher.deferred_subjects))
    _WAITING.labels(service).set_function(lambda: sweeper.waiting)
    _OLDEST.labels(service).set_function(lambda: sweeper.oldest)
    _DATABASE_WAITING.labels(service).set_function(lambda: database.waiting)


async def watch_consumers(consumers: Sequence[ConsumerLoop]) -> None:
    """Look every few seconds how far behind they are, until cancelled."""
    while True:
        await asyncio.sleep(_MEASURE_SECONDS)
        for consumer in consumers:
            try:
                await consumer.measure()
            except BusUnavailable as problem:
                _log.debug("consumer.not_measured", group=consumer.group, problem=str(problem))
