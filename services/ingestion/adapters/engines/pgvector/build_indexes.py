"""Counts term frequencies and builds the indexes of large tables, once per run."""

from psycopg.sql import SQL, Composed

from libs.persistence import Connection
from services.ingestion.adapters.engines.bm25 import LEAST_AVERAGE_LENGTH
from services.ingestion.adapters.engines.pgvector.catalog import Index
from services.ingestion.adapters.engines.pgvector.recompute_weights import recompute_weights

# Rarity is logarithmic in frequency: a smaller change hardly matters.
_CHANGE_WORTH_COUNTING = 0.05
_MEMORY_FOR_BUILDING = "256MB"


async def finish(connection: Connection, index: Index, indexed_from: int) -> None:
    """Each step is a transaction of its own and idempotent."""
    chunks, terms = await _size(connection, index)
    if chunks and not index.has_graph:
        await recompute_weights(connection, index, max(terms / chunks, LEAST_AVERAGE_LENGTH))
    counted = index.counted_chunks
    if counted is None or abs(chunks - counted) > _CHANGE_WORTH_COUNTING * counted:
        await _count_terms(connection, index, chunks, terms)
    elif chunks != index.chunks:
        # Otherwise deleted chunks would count as additions and trigger a rebuild with every small one.
        await connection.execute(
            "UPDATE search.indexes SET passages = %s, terms = %s WHERE id = %s", (chunks, terms, index.id)
        )
    if chunks >= indexed_from:
        await _build(connection, index, index.table.create_words())
        if index.table.may_have_graph:
            await _build(connection, index, index.table.create_graph())


async def _size(connection: Connection, index: Index) -> tuple[int, int]:
    found = await connection.execute(
        SQL("SELECT count(*), coalesce(sum(length), 0) FROM {}").format(index.table.name), prepare=False
    )
    [[chunks, terms]] = await found.fetchall()
    return int(chunks), int(terms)


async def _count_terms(connection: Connection, index: Index, chunks: int, terms: int) -> None:
    async with connection.transaction():
        await _allow_time(connection)
        await _alone(connection, index)
        await connection.execute(
            SQL(
                """
                INSERT INTO search.term_frequencies (index_number, version, term, passages)
                SELECT i.number, i.version + 1, counted.term, counted.passages
                FROM search.indexes i, (
                    SELECT term, count(*)::integer AS passages FROM {}, unnest(terms) AS term
                    GROUP BY term HAVING count(*) > 1
                ) AS counted WHERE i.id = %s
                """
            ).format(index.table.name),
            (index.id,),
            prepare=False,
        )
        await connection.execute(
            """
            UPDATE search.indexes SET version = version + 1, passages = %s, terms = %s, counted_passages = %s
            WHERE id = %s
            """,
            (chunks, terms, chunks, index.id),
        )
        await connection.execute(
            """
            DELETE FROM search.term_frequencies t USING search.indexes i
            WHERE i.id = %s AND t.index_number = i.number AND t.version < i.version
            """,
            (index.id,),
        )


async def _build(connection: Connection, index: Index, statement: Composed) -> None:
    async with connection.transaction():
        await _allow_time(connection)
        await _alone(connection, index)
        await connection.execute(statement)


async def _allow_time(connection: Connection) -> None:
    await connection.execute(
        "SELECT set_config('statement_timeout', '0', true), set_config('maintenance_work_mem', %s, true),"
        # Parallel builds need shared memory, of which containers have little.
        " set_config('max_parallel_maintenance_workers', '0', true), set_config('work_mem', '64MB', true)",
        (_MEMORY_FOR_BUILDING,),
    )


async def _alone(connection: Connection, index: Index) -> None:
    """Serializes builds of the same index."""
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"search {index.id}",))
