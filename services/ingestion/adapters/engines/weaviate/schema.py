"""Weaviate schema: one collection, in which every index is a tenant."""

from __future__ import annotations

from typing import Final

import weaviate
from weaviate.classes.config import (
    Configure,
    DataType,
    Property,
    StopwordsPreset,
    Tokenization,
    VectorDistances,
)
from weaviate.exceptions import UnexpectedStatusCodeError

from services.ingestion.adapters.engines.bm25 import K1, B

COLLECTION: Final = "AesPassages"

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
    # Weaviate does not stem, so keywords are searched in our terms.
    Property(
        name="terms",
        data_type=DataType.TEXT,
        tokenization=Tokenization.WHITESPACE,
        index_filterable=False,
        index_searchable=True,
    ),
    Property(name="position", data_type=DataType.INT, index_filterable=False, index_range_filters=True),
    *(
        Property(name=name, data_type=DataType.INT, index_filterable=False)
        for name in ("start_offset", "end_offset", "page", "row_number")
    ),
]


async def create_collection(client: weaviate.WeaviateAsyncClient) -> None:
    if await client.collections.exists(COLLECTION):
        return
    try:
        await client.collections.create(
            COLLECTION,
            properties=_PROPERTIES,
            # No automatic tenants: a late write must not bring a dropped index back.
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
