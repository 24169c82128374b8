"""Prometheus metrics of the ingestion service."""

from typing import Final

from prometheus_client import Counter, Gauge

from libs.contracts.error_catalogue import FILE_ERRORS

ITEMS: Final = Counter(
    "aes_ingestion_items_total",
    "Files added to or removed from an index, by outcome.",
    ["outcome"],
)
FAILURES: Final = Counter("aes_ingestion_failures_total", "Files that couldn't be ingested, by reason.", ["code"])
CHUNKS: Final = Counter("aes_ingestion_passages_total", "Passages added to indexes.")
PARSED_BYTES: Final = Counter("aes_ingestion_parsed_bytes_total", "Total size of parsed files in bytes.")
RUNS: Final = Counter("aes_ingestion_runs_total", "Finished knowledge base ingestions, by outcome.", ["outcome"])
LOST_INDEXES: Final = Counter(
    "aes_ingestion_lost_indexes_total", "Knowledge base indexes lost by their engine and scheduled for rebuilding."
)
WAITING: Final = Gauge(
    "aes_ingestion_waiting_items", "Unfinished items, ingestions and session documents across the installation."
)
DOCUMENTS: Final = Counter(
    "aes_ingestion_artifact_documents_total", "Session documents processed, by outcome.", ["outcome"]
)

# Prometheus can't see the increase of a counter that first appears with the value 1.
for _outcome in ("completed", "failed"):
    RUNS.labels(_outcome)
for _outcome in ("ingested", "removed", "failed", "put_off"):
    ITEMS.labels(_outcome)
for _outcome in ("indexed", "failed"):
    DOCUMENTS.labels(_outcome)
for _code in FILE_ERRORS:
    FAILURES.labels(_code)
