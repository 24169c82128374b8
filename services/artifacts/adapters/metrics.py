"""Metrics of the artifacts service."""

from typing import Final

from prometheus_client import Counter

UPLOADS: Final = Counter("aes_artifacts_uploads_total", "Stored artifacts, by processing strategy.", ["strategy"])
UPLOADED_BYTES: Final = Counter("aes_artifacts_uploaded_bytes_total", "Total size of stored artifacts, in bytes.")
PROCESSED: Final = Counter(
    "aes_artifacts_processed_total", "Processed artifacts, by outcome: ready or failed.", ["outcome"]
)

for _outcome in ("ready", "failed"):
    # Export zeros: Prometheus can't see the increase of a counter that first appears with the value 1.
    PROCESSED.labels(_outcome)
