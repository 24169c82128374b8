"""What ingestion tells Prometheus."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

ITEMS: Final = Counter(
    "aes_ingestion_items_total",
    "Files on their way into, or out of, an index, by what came of them; put_off: it is tried again.",
    ["outcome"],
)
FAILURES: Final = Counter("aes_ingestion_failures_total", "Files that could not be ingested, by reason.", ["code"])
PASSAGES: Final = Counter("aes_ingestion_passages_total", "Passages of files that went into an index.")
PARSED_BYTES: Final = Counter("aes_ingestion_parsed_bytes_total", "Bytes of the files that were parsed.")
RUNS: Final = Counter("aes_ingestion_runs_total", "Ingestions of knowledge bases that ended.", ["outcome"])
WAITING: Final = Gauge("aes_ingestion_waiting_items", "Unfinished items, in the whole installation.")
DOCUMENTS: Final = Counter(
    "aes_ingestion_artifact_documents_total", "Documents of sessions, by what came of them.", ["outcome"]
)

for _outcome in ("completed", "failed"):
    # A counter that first shows up with a 1 has never risen for Prometheus.
    RUNS.labels(_outcome)
    ITEMS.labels("ingested" if _outcome == "completed" else _outcome)
