"""Metrics of the artifacts service."""

from typing import Final

from prometheus_client import Counter

UPLOADS: Final = Counter("aes_artifacts_uploads_total", "Artifacts stored, by processing strategy.", ["strategy"])
UPLOADED_BYTES: Final = Counter("aes_artifacts_uploaded_bytes_total", "Bytes of stored artifacts.")
PROCESSED: Final = Counter(
    "aes_artifacts_processed_total", "Artifacts processed, by outcome: ready or failed.", ["outcome"]
)

for _outcome in ("ready", "failed"):
    # Export zeros: to Prometheus, a counter that first appears as 1 hasn't risen.
    PROCESSED.labels(_outcome)
