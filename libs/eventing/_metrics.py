"""Metrics of commands, events and the outbox."""

from functools import cache
from typing import Final

from prometheus_client import Counter, Histogram

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_COMMANDS: Final = Counter("aes_commands_total", "Commands handled, by outcome.", ["command", "outcome"])
_COMMAND_SECONDS: Final = Histogram(
    "aes_command_duration_seconds",
    "Time from receiving a command until its effects are committed or its turn is accepted.",
    ["command"],
    buckets=_SECONDS,
)
_INBOX_HITS: Final = Counter("aes_inbox_hits_total", "Redelivered messages that were skipped.", ["consumer"])
_RETRIES: Final = Counter(
    "aes_message_retries_total", "Retries of messages whose processing failed.", ["group", "cause"]
)
_DEAD: Final = Counter("aes_dead_letters_total", "Dead-lettered messages.", ["consumer", "topic"])
SWEPT: Final = Counter("aes_outbox_swept_total", "Messages published on behalf of a dead or slow process.", ["service"])
PURGED: Final = Counter("aes_purged_rows_total", "Expired rows deleted.", ["service", "table"])
PURGE_FAILURES: Final = Counter(
    "aes_purge_failures_total",
    "Failed attempts to delete a batch of expired rows. They're retried.",
    ["service", "table"],
)
PARKED: Final = Counter(
    "aes_outbox_parked_total", "Messages parked because the broker keeps rejecting them.", ["service"]
)


def command_ended(command_type: str, outcome: str, seconds: float) -> None:
    count, duration = _command_series(command_type, outcome)
    count.inc()
    duration.observe(seconds)


@cache
def _command_series(command_type: str, outcome: str) -> tuple[Counter, Histogram]:
    name = short_name(command_type)
    return _COMMANDS.labels(name, outcome), _COMMAND_SECONDS.labels(name)


def short_name(message_type: str) -> str:
    """Returns the short name of a message type: ``runtime.execute_turn`` for ``aes.runtime.execute_turn.v1``."""
    return message_type.removeprefix("aes.").rsplit(".", 1)[0]


def given_up(command_type: str) -> None:
    _COMMANDS.labels(short_name(command_type), "given_up").inc()


@cache
def inbox_hits(consumer: str) -> Counter:
    return _INBOX_HITS.labels(consumer)


def expect_retries(group: str) -> None:
    """Initializes the group's retry counters to 0, so that Prometheus sees their first increase."""
    for cause in ("outage", "error"):
        _RETRIES.labels(group, cause)


def retried(group: str, *, outage: bool) -> None:
    _RETRIES.labels(group, "outage" if outage else "error").inc()


@cache
def dead_letters(consumer: str, topic: str) -> Counter:
    """Returns a topic's counter. Call this at startup, since Prometheus misses the first increase of a new counter."""
    return _DEAD.labels(consumer, topic)
