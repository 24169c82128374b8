"""Passages as objects of Weaviate, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from weaviate.classes.data import DataObject

from services.ingestion.adapters.engines.terms import Terms
from services.ingestion.domain.engines import EngineUnavailable, Hit, IndexMissing, Passage

RETURNED = ["chunk_id", "file_id", "content", "start_offset", "end_offset", "page", "row_number"]


def identity(file_id: str, chunk_id: str) -> UUID:
    return uuid5(NAMESPACE_OID, f"{file_id}/{chunk_id}")


def object_of(passage: Passage, terms: Terms) -> DataObject[dict[str, Any], None]:
    properties = {
        "file_id": passage.file_id,
        "chunk_id": passage.chunk_id,
        "content": passage.text,
        "terms": " ".join(terms.of(passage.text)),
        "position": passage.position,
        "start_offset": passage.start,
        "end_offset": passage.end,
        "page": passage.page,
        "row_number": passage.row,
    }
    return DataObject(
        properties={name: value for name, value in properties.items() if value is not None},
        uuid=identity(passage.file_id, passage.chunk_id),
        vector=passage.vector.tolist(),
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
    """What the port says about objects that were not taken."""
    told = "; ".join(sorted(messages))
    if "tenant not found" in told or "not present in schema" in told:
        return IndexMissing(index_id)
    if "dimensions do not match" in told:
        return ValueError("the index takes vectors of another number of dimensions")
    return EngineUnavailable(f"weaviate did not take all passages: {told[:300]}")


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
