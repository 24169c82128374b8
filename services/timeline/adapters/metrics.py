"""Metrics of the numbered log."""

from typing import Final

from prometheus_client import Counter, Histogram

STORED: Final = Counter("aes_timeline_events_total", "Events stored in the timeline.")
REPEATED: Final = Counter("aes_timeline_repeated_events_total", "Redelivered events that were already stored.")
BATCHES: Final = Counter("aes_timeline_batches_total", "Transactions that stored events in the timeline.")
STORING: Final = Histogram(
    "aes_timeline_storing_duration_seconds",
    "Time between an event's creation and its storage in the timeline.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
)
