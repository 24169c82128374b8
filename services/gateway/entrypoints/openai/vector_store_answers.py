"""Converts knowledge bases into the format of vector stores."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from libs.contracts.citations import Citation
from libs.contracts.errors import NotFound
from libs.contracts.resources.knowledge_bases import KnowledgeBase
from libs.contracts.timestamps import parse_time
from services.gateway.entrypoints.openai.conventions import created_at

_ERRORS: Final = {
    "unsupported": "unsupported_file",
    **dict.fromkeys(("empty", "encrypted", "damaged", "too_large"), "invalid_file"),
}
_BATCH: Final = "vsfb_"
_ID_BYTES: Final = 16


def store(base: KnowledgeBase) -> dict[str, Any]:
    """Converts a knowledge base into a vector store. ``usage_bytes`` is always 0."""
    counts = _counts(base, base.datasource_snapshots)
    created = int(parse_time(base.created_at).timestamp())
    return {
        "id": base.id,
        "object": "vector_store",
        "created_at": created,
        "name": base.name,
        "description": base.description,
        "usage_bytes": 0,
        "file_counts": counts,
        "status": "in_progress" if base.status == "running" or counts["in_progress"] else "completed",
        "expires_after": None,
        "expires_at": None,
        "last_active_at": int(parse_time(base.updated_at).timestamp()),
        "metadata": {},
    }


def store_file(base: KnowledgeBase, file_id: str) -> dict[str, Any]:
    error = base.datasource_errors.get(file_id)
    chunking = base.chunking_strategy
    sizes = {"max_chunk_size_tokens": chunking["chunk_size"], "chunk_overlap_tokens": chunking["chunk_overlap"]}
    is_static = chunking.get("split_by") == "token"
    return {
        "id": file_id,
        "object": "vector_store.file",
        "created_at": created_at(file_id),
        "vector_store_id": base.id,
        "usage_bytes": 0,
        "status": _status(base, file_id),
        "last_error": None
        if error is None
        else {"code": _ERRORS.get(error.code, "server_error"), "message": error.message},
        "chunking_strategy": {"type": "static", "static": sizes} if is_static else {"type": "other"},
        "attributes": {},
    }


def batch(base: KnowledgeBase, identifier: str, file_ids: Sequence[str]) -> dict[str, Any]:
    counts = _counts(base, file_ids)
    failed = counts["failed"] == counts["total"]
    return {
        "id": identifier,
        "object": "vector_store.files_batch",
        "created_at": max(map(created_at, file_ids)),
        "vector_store_id": base.id,
        "status": "in_progress" if counts["in_progress"] else "failed" if failed else "completed",
        "file_counts": counts,
    }


def batch_id(file_ids: Sequence[str]) -> str:
    """Returns a batch's ID. The ID contains the files' IDs, so batches needn't be stored."""
    return _BATCH + urlsafe_b64encode(b"".join(UUID(each).bytes for each in file_ids)).decode().rstrip("=")


def files_of_batch(identifier: str) -> list[str]:
    """Returns the file IDs in a batch's ID. Raises ``NotFound`` if the text isn't a batch's ID."""
    try:
        text = identifier.removeprefix(_BATCH)
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (ValueError, NotBase64):
        raw = b""
    if not identifier.startswith(_BATCH) or not raw or len(raw) % _ID_BYTES:
        raise NotFound("No file batch has this ID.")
    return [str(UUID(bytes=raw[offset : offset + _ID_BYTES])) for offset in range(0, len(raw), _ID_BYTES)]


def results(query: str, citations: Iterable[Citation]) -> dict[str, Any]:
    data = [
        {
            "file_id": citation.file_id or "",
            "filename": citation.file_name or "",
            "score": citation.score or 0.0,
            "attributes": {},
            "content": [{"type": "text", "text": citation.passage}],
        }
        for citation in citations
    ]
    return {
        "object": "vector_store.search_results.page",
        "search_query": [query],
        "data": data,
        "has_more": False,
        "next_page": None,
    }


def _counts(base: KnowledgeBase, file_ids: Iterable[str]) -> dict[str, int]:
    """Counts files by status. Files that were removed from the store count as cancelled."""
    counted = Counter(_status(base, each) for each in file_ids)
    names = ("in_progress", "completed", "failed", "cancelled")
    return {**{name: counted[name] for name in names}, "total": counted.total()}


def _status(base: KnowledgeBase, file_id: str) -> str:
    snapshot = base.datasource_snapshots.get(file_id)
    if snapshot is None:
        return "cancelled"
    # Nothing is searchable before the end of the first ingestion, so no file is complete earlier.
    if snapshot.ingestion_status == "completed" and base.status in ("pending", "running"):
        return "in_progress"
    return snapshot.ingestion_status if snapshot.ingestion_status in ("completed", "failed") else "in_progress"
