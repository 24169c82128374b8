"""Writes and deletes chunks in bulk."""

from collections.abc import Sequence

from psycopg.sql import SQL

from libs.persistence import Connection
from services.ingestion.adapters.engines.analysis import Analysis
from services.ingestion.adapters.engines.bm25 import chunk_weights
from services.ingestion.adapters.engines.pgvector.binary import COLUMNS, HEADER, TRAILER, row_of
from services.ingestion.adapters.engines.pgvector.catalog import Index, required
from services.ingestion.adapters.engines.pgvector.maintenance import prepare_bulk_append
from services.ingestion.domain.documents import TermCounts
from services.ingestion.domain.engines import IndexedChunk

Prepared = Sequence[tuple[IndexedChunk, TermCounts]]


def prepare(analysis: Analysis, chunks: Sequence[IndexedChunk]) -> Prepared:
    """Removes duplicate chunks, sorts the others by key to prevent deadlocks, and counts their terms."""
    by_key = {each.key: each for each in reversed(chunks)}
    return [(each, each.chunk.terms or analysis.counts(each.chunk.text)) for _, each in sorted(by_key.items())]


async def write(connection: Connection, index_id: str, prepared: Prepared) -> None:
    """Writes the chunks that aren't in the index yet.

    Raises ``UniqueViolation`` if a concurrent writer adds the same chunks.
    """
    index = await required(connection, index_id)
    await prepare_bulk_append(connection, index, len(prepared))
    async with connection.transaction():
        await _write(connection, index, prepared)


async def _write(connection: Connection, index: Index, prepared: Prepared) -> None:
    if any(chunk.vector.shape != (index.table.dimensions,) for chunk, _ in prepared):
        raise ValueError(f"the index requires vectors with {index.table.dimensions} dimensions")
    found = await connection.execute(
        SQL("SELECT file_id, id FROM {} WHERE file_id = ANY(%s)").format(index.table.name),
        (list({chunk.file_id for chunk, _ in prepared}),),
        prepare=False,
    )
    present = set(await found.fetchall())
    new = [(chunk, terms) for chunk, terms in prepared if chunk.key not in present]
    if not new:
        return
    length = sum(terms.length for _, terms in new)
    average = index.average_length(len(new), length)
    rows = [row_of(chunk, chunk_weights(terms, average), terms.length, average) for chunk, terms in new]
    statement = SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(index.table.name, SQL(COLUMNS))
    async with connection.cursor().copy(statement) as copy:
        await copy.write(b"".join((HEADER, *rows, TRAILER)))
    # This row is updated last, because other writers wait for it until the commit.
    await connection.execute(
        "UPDATE search.indexes SET passages = passages + %s, terms = terms + %s WHERE id = %s",
        (len(new), length, index.id),
    )


async def delete_files(connection: Connection, index_id: str, file_ids: Sequence[str]) -> None:
    """Deletes the files' chunks. Raises ``IndexMissing``."""
    index = await required(connection, index_id)
    async with connection.transaction():
        # Lock in key order, as in every change of several rows.
        for statement in (
            "SELECT count(*) FROM (SELECT FROM {} WHERE file_id = ANY(%s) ORDER BY file_id, id FOR UPDATE) AS held",
            "DELETE FROM {} WHERE file_id = ANY(%s)",
        ):
            await connection.execute(SQL(statement).format(index.table.name), (list(file_ids),), prepare=False)
