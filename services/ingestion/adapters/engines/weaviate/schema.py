"""Weaviate's schema: one collection, with a tenant for each index and an object for each chunk."""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import NAMESPACE_OID, UUID, uuid5

import weaviate
from weaviate.classes.config import (
    Configure,
    DataType,
    Property,
    StopwordsPreset,
    Tokenization,
    VectorDistances,
)
from weaviate.classes.data import DataObject
from weaviate.exceptions import UnexpectedStatusCodeError

from services.ingestion.adapters.engines.analysis import Analysis
from services.ingestion.adapters.engines.bm25 import K1, B
from services.ingestion.domain.engines import EngineUnavailable, Hit, IndexedChunk, IndexMissing

COLLECTION: Final = "AesPassages"
KEY = ["chunk_id", "file_id", "position"]
RETURNED = ["chunk_id", "file_id", "content", "start_offset", "end_offset", "page", "row_number"]

_PROPERTIES = [
    Property(
        name="file_id",
        data_type=DataType.TEXT,
        tokenization=Tokenization.FIELD,
        index_filterable=True,
        index_searchable=False,
    ),
    Property(name="chunk_id", data_type=DataType.TEXT, index_filterable=False, index_searchable=False),
    Property(name="content", data_type=DataType.TEXT, index_filterable=False, index_searchable=False),
    # Weaviate doesn't stem, so keyword search uses our own terms.
    Property(
        name="terms",
        data_type=DataType.TEXT,
        tokenization=Tokenization.WHITESPACE,
        index_filterable=False,
        index_searchable=True,
    ),
    *(
        Property(name=name, data_type=DataType.INT, index_filterable=False)
        for name in ("position", "start_offset", "end_offset", "page", "row_number")
    ),
]


async def create_collection(client: weaviate.WeaviateAsyncClient) -> None:
    if await client.collections.exists(COLLECTION):
        return
    try:
        await client.collections.create(
            COLLECTION,
            properties=_PROPERTIES,
            # Tenants aren't created automatically: a late write must not recreate a dropped index.
            multi_tenancy_config=Configure.multi_tenancy(
                enabled=True, auto_tenant_creation=False, auto_tenant_activation=True
            ),
            inverted_index_config=Configure.inverted_index(bm25_b=B, bm25_k1=K1, stopwords_preset=StopwordsPreset.NONE),
            vector_config=Configure.Vectors.self_provided(
                quantizer=Configure.VectorIndex.Quantizer.none(),
                vector_index_config=Configure.VectorIndex.hnsw(distance_metric=VectorDistances.COSINE),
            ),
        )
    except UnexpectedStatusCodeError:
        if not await client.collections.exists(COLLECTION):
            raise


def identity(file_id: str, chunk_id: str) -> UUID:
    return uuid5(NAMESPACE_OID, f"{file_id}/{chunk_id}")


def object_of(indexed: IndexedChunk, analysis: Analysis) -> DataObject[dict[str, Any], None]:
    chunk = indexed.chunk
    properties = {
        "file_id": indexed.file_id,
        "chunk_id": chunk.id,
        "content": chunk.text,
        "terms": " ".join(analysis.terms(chunk.text)),
        "position": chunk.index,
        "start_offset": chunk.start,
        "end_offset": chunk.end,
        "page": chunk.page,
        "row_number": chunk.row,
    }
    return DataObject(
        properties={name: value for name, value in properties.items() if value is not None},
        uuid=identity(*indexed.key),
        vector=indexed.vector.tolist(),
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
    """Returns the error to raise for objects that Weaviate rejected."""
    reason = "; ".join(sorted(messages))
    if "tenant not found" in reason or "not present in schema" in reason:
        return IndexMissing(index_id)
    if "dimensions do not match" in reason:
        return ValueError("the index requires vectors with a different number of dimensions")
    return EngineUnavailable(f"Weaviate rejected some passages: {reason[:300]}.")


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
