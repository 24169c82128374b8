"""Writes and deletes chunks in bulk."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.sql import SQL

from libs.persistence import Connection
from services.ingestion.adapters.engines.bm25 import chunk_weights
from services.ingestion.adapters.engines.pgvector.binary import COLUMNS, HEADER, TRAILER, row_of
from services.ingestion.adapters.engines.pgvector.bulk_append import prepare_bulk_append
from services.ingestion.adapters.engines.pgvector.catalog import Index, required
from services.ingestion.adapters.engines.terms import Terms
from services.ingestion.domain.documents import TermCounts
from services.ingestion.domain.engines import IndexedChunk


@dataclass(frozen=True, slots=True)
class Prepared:
    chunk: IndexedChunk
    terms: TermCounts

    @property
    def key(self) -> tuple[str, str]:
        return self.chunk.file_id, self.chunk.chunk_id


class Writing:
    def __init__(self, terms: Terms) -> None:
        self._terms = terms

    def prepare(self, chunks: Sequence[IndexedChunk]) -> list[Prepared]:
        """Counts the terms of chunks; one given twice is taken once. Sorted by key.

        Every writer takes the keys of an index in this order, so that two writers of the same chunks never wait
        for each other.
        """
        prepared: dict[tuple[str, str], Prepared] = {}
        for chunk in chunks:
            each = Prepared(chunk, chunk.terms or self._terms.counts(chunk.text))
            prepared.setdefault(each.key, each)
        return [prepared[key] for key in sorted(prepared)]

    async def write(self, connection: Connection, index_id: str, prepared: Sequence[Prepared]) -> None:
        """Writes chunks that are not there yet. Another writer of the same chunks causes a unique violation."""
        index = await required(connection, index_id)
        await prepare_bulk_append(connection, index, len(prepared))
        async with connection.transaction():
            await _write(connection, index, prepared)


async def _write(connection: Connection, index: Index, prepared: Sequence[Prepared]) -> None:
    if any(each.chunk.vector.shape != (index.table.dimensions,) for each in prepared):
        raise ValueError(f"the index takes vectors of {index.table.dimensions} dimensions")
    found = await connection.execute(
        SQL("SELECT file_id, id FROM {} WHERE file_id = ANY(%s)").format(index.table.name),
        (list({each.chunk.file_id for each in prepared}),),
        prepare=False,
    )
    present = set(await found.fetchall())
    new = [each for each in prepared if each.key not in present]
    if not new:
        return
    terms = sum(each.terms.length for each in new)
    average = index.average_length(len(new), terms)
    rows = [row_of(e.chunk, chunk_weights(e.terms, average), e.terms.length, average) for e in new]
    statement = SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(index.table.name, SQL(COLUMNS))
    async with connection.cursor().copy(statement) as copy:
        await copy.write(b"".join((HEADER, *rows, TRAILER)))
    # Last: other writers wait for this row until the commit.
    await connection.execute(
        "UPDATE search.indexes SET passages = passages + %s, terms = terms + %s WHERE id = %s",
        (len(new), terms, index.id),
    )


async def delete_files(connection: Connection, index_id: str, file_ids: Sequence[str]) -> None:
    """Raises ``IndexMissing``."""
    index = await required(connection, index_id)
    async with connection.transaction():
        # Locked in the order of the keys, like every change of several rows.
        for statement in (
            "SELECT count(*) FROM (SELECT FROM {} WHERE file_id = ANY(%s) ORDER BY file_id, id FOR UPDATE) AS held",
            "DELETE FROM {} WHERE file_id = ANY(%s)",
        ):
            await connection.execute(SQL(statement).format(index.table.name), (list(file_ids),), prepare=False)
