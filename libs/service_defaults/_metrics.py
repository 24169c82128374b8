"""Metrics of a service's outbox and database."""

from typing import Final

from prometheus_client import Gauge

from libs.eventing import Publisher, Sweeper
from libs.persistence import Database

_HELD: Final = Gauge("aes_outbox_held_subjects", "Subjects whose events wait for the sweeper.", ["service"])
_WAITING: Final = Gauge("aes_outbox_waiting_events", "Events that are recorded and not sent yet.", ["service"])
_OLDEST: Final = Gauge("aes_outbox_oldest_seconds", "How long the oldest of them waits.", ["service"])
_DATABASE_WAITING: Final = Gauge(
    "aes_database_waiting_requests", "Pieces of work that wait for a connection to the database.", ["service"]
)


def measure_stores(service: str, publisher: Publisher, sweeper: Sweeper, database: Database) -> None:
    """Reports these from now on. The sweeper counts what waits in the outbox, so only in processes of role ``api``."""
    _HELD.labels(service).set_function(lambda: len(publisher.deferred_subjects))
    _WAITING.labels(service).set_function(lambda: sweeper.waiting)
    _OLDEST.labels(service).set_function(lambda: sweeper.oldest)
    _DATABASE_WAITING.labels(service).set_function(lambda: database.waiting)
