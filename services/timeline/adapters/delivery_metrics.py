"""Metrics of webhook deliveries."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from services.timeline.domain.deliveries import Answer
from services.timeline.domain.ports import Backlog

_ATTEMPTS: Final = Counter(
    "aes_webhook_attempts_total",
    "Webhook delivery attempts, by result.",
    ["result"],
)
_SECONDS: Final = Histogram(
    "aes_webhook_attempt_duration_seconds",
    "Duration of webhook delivery attempts.",
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 15),
)
_PENDING: Final = Gauge("aes_webhook_pending_deliveries", "Pending deliveries across the installation.")
_OVERDUE: Final = Gauge(
    "aes_webhook_overdue_seconds",
    "Delay of the oldest due attempt, excluding recently failed webhooks.",
)
_BEHIND: Final = Gauge(
    "aes_webhook_events_behind",
    "Number of events that the slowest webhook is behind, excluding recently failed webhooks.",
)
_RESULTS: Final = ("accepted", "refused", "unanswered")

# Exports zeros, because Prometheus doesn't see an increase if a counter first appears as 1.
for _result in _RESULTS:
    _ATTEMPTS.labels(_result)


def attempted(answer: Answer, seconds: float) -> None:
    accepted, refused, unanswered = _RESULTS
    result = accepted if answer.accepted else unanswered if answer.status is None else refused
    _ATTEMPTS.labels(result).inc()
    _SECONDS.observe(seconds)


def waiting(backlog: Backlog) -> None:
    _PENDING.set(backlog.pending)
    _OVERDUE.set(backlog.overdue_seconds)
    _BEHIND.set(backlog.events_behind)
