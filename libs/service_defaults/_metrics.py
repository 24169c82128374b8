"""What every service tells Prometheus about its place on the bus."""

from collections.abc import Sequence
from typing import Final

from prometheus_client import Gauge

from libs.eventing import DeadLetters, Publisher

_PARKED: Final = Gauge(
    "aes_outbox_parked_events", "Events that the broker refused for good, since the start.", ["service"]
)
_HELD: Final = Gauge("aes_outbox_held_subjects", "Subjects whose events wait for the sweeper.", ["service"])
_WAITING: Final = Gauge("aes_outbox_waiting_events", "Events that are recorded and not sent yet.", ["service"])
_OLDEST: Final = Gauge("aes_outbox_oldest_seconds", "How long the oldest of them waits.", ["service"])
_DEAD: Final = Gauge("aes_dead_letters", "Messages that could not be processed, since the start.", ["service"])


def watch_bus(service: str, publisher: Publisher, dead_letters: Sequence[DeadLetters]) -> None:
    """Report these from now on.

    Parked events and dead letters are an alarm, so is an event that waits for more than a minute while the bus is
    up. What waits is counted by the sweeper, so in processes of the role ``api``.
    """
    _PARKED.labels(service).set_function(lambda: publisher.parked)
    _HELD.labels(service).set_function(lambda: publisher.held)
    _WAITING.labels(service).set_function(lambda: publisher.waiting)
    _OLDEST.labels(service).set_function(lambda: publisher.oldest)
    _DEAD.labels(service).set_function(lambda: sum(letters.count for letters in dead_letters))
