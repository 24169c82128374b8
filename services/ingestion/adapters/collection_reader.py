"""Reads of collections from PostgreSQL."""

from typing import Any

from psycopg.rows import dict_row

from libs.persistence import Database
from services.ingestion.adapters.collection_rows import COLLECTIONS, collection_of
from services.ingestion.domain.collections import StoredCollection

_NEWEST_FIRST = "ORDER BY c.created_at DESC, c.id DESC"


class PostgresCollectionReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, company_id: str, collection_id: str) -> StoredCollection | None:
        if "\x00" in collection_id:
            return None
        rows = await self._rows(f"{COLLECTIONS} WHERE c.company_id = %s AND c.id = %s", (company_id, collection_id))
        return collection_of(rows[0]) if rows else None

    async def page(self, company_id: str, *, limit: int, offset: int) -> tuple[list[StoredCollection], int]:
        rows = await self._rows(
            f"{COLLECTIONS} WHERE c.company_id = %s {_NEWEST_FIRST} LIMIT %s OFFSET %s", (company_id, limit, offset)
        )
        total = await self._rows("SELECT count(*) AS total FROM collections WHERE company_id = %s", (company_id,))
        return [collection_of(row) for row in rows], int(total[0]["total"])

    async def all(self, company_id: str) -> list[StoredCollection]:
        rows = await self._rows(f"{COLLECTIONS} WHERE c.company_id = %s {_NEWEST_FIRST}", (company_id,))
        return [collection_of(row) for row in rows]

    async def _rows(self, query: str, parameters: tuple[Any, ...]) -> list[dict[str, Any]]:
        async with (
            self._database.connection() as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            await cursor.execute(query, parameters)
            return await cursor.fetchall()
