"""Which files may answer a search, read from PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from libs.contracts.api.knowledge import SearchFilters
from libs.persistence import Database
from services.ingestion.domain.engines import FileSelection

_CONDITIONS = {
    "file_ids": "f.id = ANY (%(file_ids)s)",
    "tags": "f.tags && %(tags)s::text[]",
    "collection_ids": "EXISTS (SELECT FROM collection_files c WHERE c.file_id = f.id"
    " AND c.collection_id = ANY (%(collection_ids)s))",
}
_INDEXED = """
    SELECT f.id FROM ingestion_items i JOIN files f ON f.id = i.file_id
    WHERE i.index_id = %(index)s AND f.company_id = %(company)s
"""


class PostgresSearchableFiles:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def select(self, company_id: str, index_id: str, filters: SearchFilters) -> FileSelection:
        wanted = {name: value for name in _CONDITIONS if (value := getattr(filters, name))}
        # PostgreSQL refuses the character, so nothing stored has it.
        given = {name: [each for each in value if "\0" not in each] for name, value in wanted.items()}
        parameters = {"index": index_id, "company": company_id, **given}
        if not given:
            # Files that are out of use are few, and an index without them is searched as a whole.
            unwanted = f"{_INDEXED} AND (f.status <> 'active' OR f.deleted_at IS NOT NULL)"
            return FileSelection(without=await self._ids(unwanted, parameters))
        conditions = "".join(f" AND {_CONDITIONS[name]}" for name in given)
        active = f"{_INDEXED} AND f.status = 'active' AND f.deleted_at IS NULL"
        return FileSelection(only=await self._ids(active + conditions, parameters))

    async def names(self, company_id: str, file_ids: Collection[str]) -> Mapping[str, str]:
        query = """
            SELECT id, name FROM files
            WHERE id = ANY (%s) AND company_id = %s AND deleted_at IS NULL AND status = 'active'
        """
        async with self._database.connection() as connection:
            found = await connection.execute(query, (list(file_ids), company_id))
            return {row[0]: row[1] for row in await found.fetchall()}

    async def _ids(self, query: str, parameters: Mapping[str, Any]) -> frozenset[str]:
        async with self._database.connection() as connection:
            found = await connection.execute(query, parameters)
            return frozenset(row[0] for row in await found.fetchall())
