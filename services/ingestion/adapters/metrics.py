"""Prometheus metrics."""

from typing import Final, get_args

from prometheus_client import Counter, Gauge

from services.ingestion.domain.parsing import Reason

ITEMS: Final = Counter(
    "aes_ingestion_items_total",
    "Files on their way into, or out of, an index, by what came of them; put_off: it is tried again.",
    ["outcome"],
)
FAILURES: Final = Counter("aes_ingestion_failures_total", "Files that could not be ingested, by reason.", ["code"])
CHUNKS: Final = Counter("aes_ingestion_passages_total", "Passages of files that went into an index.")
PARSED_BYTES: Final = Counter("aes_ingestion_parsed_bytes_total", "Bytes of the files that were parsed.")
RUNS: Final = Counter("aes_ingestion_runs_total", "Ingestions of knowledge bases that ended.", ["outcome"])
LOST_INDEXES: Final = Counter(
    "aes_ingestion_lost_indexes_total", "Indexes of knowledge bases that their engine had lost, and that are made anew."
)
WAITING: Final = Gauge(
    "aes_ingestion_waiting_items", "Unfinished items, ingestions and documents of sessions, in the whole installation."
)
DOCUMENTS: Final = Counter(
    "aes_ingestion_artifact_documents_total", "Documents of sessions, by what came of them.", ["outcome"]
)

# Prometheus sees no increase of a counter that first shows up with a 1.
for _outcome in ("completed", "failed"):
    RUNS.labels(_outcome)
for _outcome in ("ingested", "removed", "failed", "put_off"):
    ITEMS.labels(_outcome)
for _outcome in ("indexed", "failed"):
    DOCUMENTS.labels(_outcome)
for _code in (*get_args(Reason), "embedding_refused"):
    FAILURES.labels(_code)
