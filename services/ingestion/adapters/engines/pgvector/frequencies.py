"""Document frequencies of terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from psycopg.sql import SQL, Literal

from libs.persistence import Connection
from services.ingestion.adapters.engines.bm25 import TermWeights
from services.ingestion.adapters.engines.pgvector.binary import sparse_literal
from services.ingestion.adapters.engines.pgvector.catalog import Index

_SAMPLE = 3000


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Missing terms occur in one of the `chunks` at most."""

    of_terms: Mapping[int, float]
    chunks: float


async def frequencies(connection: Connection, index: Index, terms: Sequence[int]) -> Frequencies:
    if index.counted_chunks is None:
        return await _sampled(connection, index, terms)
    found = await connection.execute(
        """
        SELECT t.term, t.passages FROM search.indexes i
        JOIN search.term_frequencies t ON t.index_number = i.number AND t.version = i.version
        WHERE i.id = %s AND t.term = ANY(%s)
        """,
        (index.id, list(terms)),
    )
    return Frequencies({row[0]: float(row[1]) for row in await found.fetchall()}, index.counted_chunks)


async def _sampled(connection: Connection, index: Index, terms: Sequence[int]) -> Frequencies:
    """Estimates frequencies until the first run has ended."""
    share = min(1.0, _SAMPLE / max(1, index.chunks))
    each = ", ".join(["count(*) FILTER (WHERE weights <#> %s::sparsevec < 0)"] * len(terms))
    statement = "SELECT count(*), " + each + " FROM {} TABLESAMPLE SYSTEM ({})"
    one = np.ones(1, np.float32)
    found = await connection.execute(
        SQL(statement).format(index.table.name, Literal(100 * share)),
        [sparse_literal(TermWeights(np.array([term], np.int32), one)) for term in terms],
        prepare=False,
    )
    row = await found.fetchone()
    assert row is not None
    if not row[0]:
        return Frequencies({}, index.chunks)
    scale = index.chunks / row[0]
    return Frequencies({term: max(1.0, n * scale) for term, n in zip(terms, row[1:], strict=True)}, index.chunks)
