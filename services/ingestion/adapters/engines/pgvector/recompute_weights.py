"""Recomputes BM25 weights of chunks that were written with another average length."""

from psycopg.sql import SQL

from libs.persistence import Connection
from services.ingestion.adapters.engines.bm25 import recomputed_weights
from services.ingestion.adapters.engines.pgvector.binary import sparse_from, sparse_literal
from services.ingestion.adapters.engines.pgvector.catalog import Index
from services.ingestion.adapters.engines.pgvector.term_levels import with_levels

# Tolerated deviation of the average length, as a share.
_TOLERATED = 0.05
_AT_ONCE = 500


async def recompute_weights(connection: Connection, index: Index, average_length: float) -> None:
    """Commits every few hundred chunks; each chunk is consistent by itself."""
    file_id, chunk_id = "", ""
    select = SQL(
        """
        SELECT file_id, id, length, average_length, weights FROM {}
        WHERE (file_id, id) > (%s, %s) AND average_length NOT BETWEEN %s AND %s
        ORDER BY file_id, id LIMIT %s FOR UPDATE
        """
    ).format(index.table.name)
    update = SQL(
        """
        UPDATE {} AS passages
        SET weights = given.weights::sparsevec, terms = given.terms::integer[], average_length = %s
        FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) AS given (file_id, id, weights, terms)
        WHERE passages.file_id = given.file_id AND passages.id = given.id
        """
    ).format(index.table.name)
    least, most = average_length * (1 - _TOLERATED), average_length * (1 + _TOLERATED)
    while True:
        async with connection.transaction():
            cursor = connection.cursor(binary=True)
            await cursor.execute(select, (file_id, chunk_id, least, most, _AT_ONCE), prepare=False)
            rows = await cursor.fetchall()
            if not rows:
                return
            recomputed = [
                recomputed_weights(sparse_from(stored), length, old, average_length)
                for _, _, length, old, stored in rows
            ]
            weights = [sparse_literal(each) for each in recomputed]
            terms = ["{" + ",".join(map(str, with_levels(each).tolist())) + "}" for each in recomputed]
            files, chunks = [row[0] for row in rows], [row[1] for row in rows]
            await connection.execute(update, (average_length, files, chunks, weights, terms), prepare=False)
            file_id, chunk_id = files[-1], chunks[-1]
