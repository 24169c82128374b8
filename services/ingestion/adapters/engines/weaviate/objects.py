"""Chunks as Weaviate objects, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from weaviate.classes.data import DataObject

from services.ingestion.adapters.engines.terms import Terms
from services.ingestion.domain.engines import EngineUnavailable, Hit, IndexedChunk, IndexMissing

RETURNED = ["chunk_id", "file_id", "content", "start_offset", "end_offset", "page", "row_number"]


def identity(file_id: str, chunk_id: str) -> UUID:
    return uuid5(NAMESPACE_OID, f"{file_id}/{chunk_id}")


def object_of(chunk: IndexedChunk, terms: Terms) -> DataObject[dict[str, Any], None]:
    properties = {
        "file_id": chunk.file_id,
        "chunk_id": chunk.chunk_id,
        "content": chunk.text,
        "terms": " ".join(terms.of(chunk.text)),
        "position": chunk.position,
        "start_offset": chunk.start,
        "end_offset": chunk.end,
        "page": chunk.page,
        "row_number": chunk.row,
    }
    return DataObject(
        properties={name: value for name, value in properties.items() if value is not None},
        uuid=identity(chunk.file_id, chunk.chunk_id),
        vector=chunk.vector.tolist(),
    )


def hit_of(properties: Mapping[str, Any], score: float) -> Hit:
    return Hit(
        chunk_id=properties["chunk_id"],
        file_id=properties["file_id"],
        text=properties["content"],
        score=score,
        start=int(properties["start_offset"]),
        end=int(properties["end_offset"]),
        page=_whole(properties.get("page")),
        row=_whole(properties.get("row_number")),
    )


def refusal(index_id: str, messages: Iterable[str]) -> Exception:
    """The port's error for objects that Weaviate refused."""
    told = "; ".join(sorted(messages))
    if "tenant not found" in told or "not present in schema" in told:
        return IndexMissing(index_id)
    if "dimensions do not match" in told:
        return ValueError("the index takes vectors of another number of dimensions")
    return EngineUnavailable(f"weaviate did not take all passages: {told[:300]}")


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
