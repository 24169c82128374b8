"""The search engine in the service's own PostgreSQL database. Each index has its own table."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import psycopg

from libs.contracts.errors import StoreUnavailable
from libs.persistence import Connection, Database
from libs.retry import RetryPolicy
from services.ingestion.adapters.engines.analysis import Analysis
from services.ingestion.adapters.engines.pgvector.catalog import IndexTable, ensure_catalog, required
from services.ingestion.adapters.engines.pgvector.maintenance import finish
from services.ingestion.adapters.engines.pgvector.searching import PgvectorSearching
from services.ingestion.adapters.engines.pgvector.writing import delete_files, prepare, write
from services.ingestion.domain.engines import (
    EngineConflict,
    EngineUnavailable,
    IndexedChunk,
    IndexMissing,
)

# Below this size, a full scan takes only milliseconds and is exact, and writes remain fast.
INDEXED_FROM = 5_000
_CONFLICT: Final = "concurrent writers kept changing the same rows of the search index"
_RETRIES: Final = RetryPolicy(first=0.01, longest=0.1, attempts=5)


class PgvectorEngine:
    """Implements Engine with pgvector. Each call occupies a database connection, and `finish` may do so for minutes."""

    name = "pgvector"

    def __init__(self, database: Database, *, indexed_from: int = INDEXED_FROM) -> None:
        """Creates the engine. Indexes with at least `indexed_from` chunks get a graph and an inverted index."""
        self._database = database
        self._analysis = Analysis()
        self._indexed_from = indexed_from

    async def create_index(self, index_id: str, dimensions: int) -> None:
        async with self._connected() as connection, connection.transaction():
            await ensure_catalog(connection)
            # Delete an entry whose table is missing, because it would block the creation.
            await connection.execute(
                "DELETE FROM search.indexes WHERE id = %s AND to_regclass('search.passages_' || number) IS NULL",
                (index_id,),
            )
            made = await connection.execute(
                "INSERT INTO search.indexes (id, dimensions) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING number",
                (index_id, dimensions),
            )
            if row := await made.fetchone():
                for statement in IndexTable(row[0], dimensions).create():
                    await connection.execute(statement)

    async def drop_index(self, index_id: str) -> None:
        with suppress(IndexMissing):
            async with self._connected(index_id) as connection, connection.transaction():
                index = await required(connection, index_id)
                # Drop the table before its catalog entry, because writers lock them in the same order.
                await connection.execute(psycopg.sql.SQL("DROP TABLE IF EXISTS {}").format(index.table.name))
                await connection.execute(
                    "DELETE FROM search.term_frequencies WHERE index_number = %s", (index.table.number,)
                )
                await connection.execute("DELETE FROM search.indexes WHERE id = %s", (index_id,))

    async def existing(self, index_ids: Sequence[str]) -> set[str]:
        try:
            async with self._connected() as connection:
                found = await connection.execute(
                    """SELECT id FROM search.indexes
                       WHERE id = ANY(%s) AND to_regclass('search.passages_' || number) IS NOT NULL
                         AND to_regclass('search.term_frequencies') IS NOT NULL""",
                    (list(index_ids),),
                )
                return {row[0] for row in await found.fetchall()}
        except psycopg.errors.UndefinedTable:
            return set()

    async def write(self, index_id: str, chunks: Sequence[IndexedChunk]) -> None:
        if not chunks:
            return
        prepared = await asyncio.to_thread(prepare, self._analysis, chunks)
        await self._changed(index_id, lambda connection: write(connection, index_id, prepared))

    async def finish(self, index_id: str) -> None:
        async with self._connected(index_id) as connection:
            await finish(connection, await required(connection, index_id), self._indexed_from)

    async def delete_files(self, index_id: str, file_ids: Sequence[str]) -> None:
        with suppress(IndexMissing):
            await self._changed(index_id, lambda connection: delete_files(connection, index_id, file_ids))

    async def count(self, index_id: str) -> int:
        async with self._connected(index_id) as connection:
            index = await required(connection, index_id)
            try:
                found = await connection.execute(
                    psycopg.sql.SQL("SELECT count(*) FROM {}").format(index.table.name), prepare=False
                )
            except psycopg.errors.QueryCanceled as problem:
                raise EngineUnavailable("Counting the passages timed out.") from problem
            [[count]] = await found.fetchall()
            return int(count)

    @asynccontextmanager
    async def searching(self, index_id: str) -> AsyncIterator[PgvectorSearching]:
        async with self._connected(index_id) as connection:
            yield PgvectorSearching(connection, await required(connection, index_id), self._analysis)

    async def close(self) -> None:
        """Does nothing, because the engine doesn't own the database connection pool."""

    async def _changed(self, index_id: str, change: Callable[[Connection], Awaitable[None]]) -> None:
        """Retries the change after conflicts. Raises ``EngineConflict`` if the last attempt conflicts."""

        async def attempt() -> None:
            async with self._connected(index_id) as connection:
                await change(connection)

        await _RETRIES.run(attempt, on=EngineConflict)

    @asynccontextmanager
    async def _connected(self, index_id: str = "") -> AsyncIterator[Connection]:
        try:
            async with self._database.connection() as connection:
                yield connection
        except psycopg.errors.UndefinedTable as problem:
            if index_id:
                raise IndexMissing(index_id) from problem
            raise
        except psycopg.errors.UniqueViolation as problem:
            raise EngineConflict(_CONFLICT) from problem
        except StoreUnavailable as problem:
            if isinstance(problem.__cause__, psycopg.errors.DeadlockDetected):
                raise EngineConflict(_CONFLICT) from problem
            raise EngineUnavailable("The search engine's database isn't responding.") from problem
