"""Changes of collections in PostgreSQL, inside a transaction of the caller's."""

from collections.abc import Sequence

from psycopg.rows import dict_row
from psycopg.types.json import Json

from libs.persistence import Connection
from services.ingestion.adapters.collection_rows import COLLECTIONS, collection_of
from services.ingestion.adapters.file_rows import storable
from services.ingestion.domain.collections import StoredCollection, told


class PostgresCollectionWriter:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, collection: StoredCollection, created_by: str, correlation_id: str) -> None:
        await self._connection.execute(
            """INSERT INTO collections
                   (id, company_id, name, description, created_by, created_at, updated_at, told, correlation_id)
               VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)""",
            (
                collection.id, collection.company_id, collection.name, collection.description, created_by,
                collection.created_at, collection.updated_at, Json(told(collection.public())), correlation_id,
            ),
        )  # fmt: skip

    async def lock(self, company_id: str, collection_id: str) -> StoredCollection | None:
        if "\x00" in collection_id:
            return None
        key = (company_id, collection_id)
        # Two statements: one that waited for the lock would miss files added meanwhile.
        await self._connection.execute("SELECT FROM collections WHERE (company_id, id) = (%s, %s) FOR UPDATE", key)
        return await self._read(key)

    async def describe(self, collection_id: str, name: str, description: str) -> None:
        await self._connection.execute(
            "UPDATE collections SET name = %s, description = %s, updated_at = clock_timestamp() WHERE id = %s",
            (name, description, collection_id),
        )

    async def delete(self, collection_id: str) -> None:
        await self._connection.execute("DELETE FROM collections WHERE id = %s", (collection_id,))

    async def add_files(self, collection_id: str, file_ids: Sequence[str], correlation_id: str) -> set[str]:
        added = await self._connection.execute(
            """INSERT INTO collection_files (collection_id, file_id, added_at)
               SELECT %s, id, clock_timestamp() FROM unnest(%s::text[]) AS id
               ON CONFLICT DO NOTHING RETURNING file_id""",
            (collection_id, storable(file_ids)),
        )
        ids = {file_id for (file_id,) in await added.fetchall()}
        if ids:
            await self._touch(collection_id, correlation_id)
        return ids

    async def remove_file(self, collection_id: str, file_id: str, correlation_id: str) -> bool:
        removed = await self._connection.execute(
            "DELETE FROM collection_files WHERE collection_id = %s AND file_id = ANY (%s)",
            (collection_id, storable([file_id])),
        )
        if removed.rowcount:
            await self._touch(collection_id, correlation_id)
        return bool(removed.rowcount)

    async def _touch(self, collection_id: str, correlation_id: str) -> None:
        await self._connection.execute(
            """UPDATE collections SET files_changed_at = now(), updated_at = clock_timestamp(), correlation_id = %s
               WHERE id = %s""",
            (correlation_id, collection_id),
        )

    async def _read(self, key: tuple[str, str]) -> StoredCollection | None:
        async with self._connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(f"{COLLECTIONS} WHERE (c.company_id, c.id) = (%s, %s)", key)
            row = await cursor.fetchone()
        return collection_of(row) if row else None
