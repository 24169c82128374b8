"""Maintains an index at the end of a run: weights, term frequencies and database indexes."""

from typing import Final

import psycopg
import structlog
from psycopg.sql import SQL, Composed, Identifier

from libs.persistence import Connection
from services.ingestion.adapters.engines.bm25 import LEAST_AVERAGE_LENGTH, recomputed_weights
from services.ingestion.adapters.engines.pgvector.binary import sparse_from, sparse_literal
from services.ingestion.adapters.engines.pgvector.catalog import Index
from services.ingestion.adapters.engines.pgvector.selective_words import with_levels

# A term's rarity is logarithmic in its frequency, so a smaller change hardly matters.
_CHANGE_WORTH_COUNTING = 0.05
_MEMORY_FOR_BUILDING = "256MB"
# Weights are kept while the average length deviates by no more than this share.
_TOLERATED = 0.05
_RECOMPUTED_AT_ONCE = 500
# It's cheaper to rebuild the graph and the inverted index than to add many chunks to them. Adding 90,000 chunks to
# 10,000 takes 85 s with a rebuild at the end, and 244 s otherwise. Until the rebuild, searches compare every chunk.
_APPENDED_SHARE: Final = 0.1
_LEAST_APPENDED: Final = 1000
# The wait must be short, because searches queue behind a waiting exclusive lock.
_LOCK_WAIT_MS: Final = 200
_log: Final = structlog.get_logger(__name__)


async def finish(connection: Connection, index: Index, indexed_from: int) -> None:
    """Updates weights and statistics, and builds database indexes. Each step has its own transaction."""
    chunks, terms = await _size(connection, index)
    if chunks and not index.has_graph:
        await recompute_weights(connection, index, max(terms / chunks, LEAST_AVERAGE_LENGTH))
    counted = index.counted_chunks
    if counted is None or abs(chunks - counted) > _CHANGE_WORTH_COUNTING * counted:
        await _count_terms(connection, index, chunks, terms)
    elif chunks != index.chunks:
        # Without this update, deleted chunks would count as additions, and each small addition would trigger a rebuild.
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
        # Parallel builds need shared memory, which is scarce in containers.
        " set_config('max_parallel_maintenance_workers', '0', true), set_config('work_mem', '64MB', true)",
        (_MEMORY_FOR_BUILDING,),
    )


async def _alone(connection: Connection, index: Index) -> None:
    """Waits for other builds of the same index, and blocks new builds until the end of the transaction."""
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"search {index.id}",))


async def recompute_weights(connection: Connection, index: Index, average_length: float) -> None:
    """Recomputes weights that would change noticeably. Commits after every few hundred chunks."""
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
            await cursor.execute(select, (file_id, chunk_id, least, most, _RECOMPUTED_AT_ONCE), prepare=False)
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


async def prepare_bulk_append(connection: Connection, index: Index, more: int) -> None:
    """Drops the graph and the inverted index before a large append. `finish` rebuilds them.

    ``more`` is the number of chunks to append. Nothing is dropped while another transaction locks the table.
    """
    counted = index.counted_chunks or 0
    added = index.chunks + more - counted
    if (index.has_graph or index.has_words) and added > max(_LEAST_APPENDED, _APPENDED_SHARE * counted):
        names = (Identifier("search", name) for name in (index.table.graph_name, index.table.words_name))
        try:
            async with connection.transaction():
                await connection.execute(SQL("SELECT set_config('lock_timeout', %s, true)"), (f"{_LOCK_WAIT_MS}ms",))
                await connection.execute(SQL("DROP INDEX IF EXISTS {}, {}").format(*names), prepare=False)
        except psycopg.errors.LockNotAvailable:
            _log.info("index.table_busy", index_id=index.id)
