"""Finds collections that changed because their files or texts did, in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from psycopg.rows import dict_row
from psycopg.types.json import Json

from libs.persistence import Connection, Database
from services.ingestion.adapters.collection_rows import COLLECTIONS, collection_of
from services.ingestion.domain.collections import told
from services.ingestion.domain.file_ports import Untold

# A change carries the time at which its transaction began, and can be seen only when that has ended.
_OVERLAP_SECONDS: Final = 45


class PostgresCollectionWatch:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def touched(self, since: datetime | None) -> tuple[list[str], datetime]:
        async with self._database.connection() as connection:
            cursor = await connection.execute("SELECT now() - %s * interval '1 second'", (_OVERLAP_SECONDS,))
            row = await cursor.fetchone()
            assert row is not None
            found = await connection.execute(
                """SELECT id FROM collections WHERE files_changed_at >= %(since)s
                   UNION
                   SELECT cf.collection_id FROM texts t
                   JOIN files f ON f.blob_id = t.blob_id AND f.content_type = t.content_type
                   JOIN collection_files cf ON cf.file_id = f.id
                   WHERE t.changed_at >= %(since)s""",
                {"since": since or "-infinity"},
            )
            return [collection_id for (collection_id,) in await found.fetchall()], row[0]


class PostgresCollectionTeller:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def untold(self, collection_ids: Sequence[str]) -> list[Untold]:
        cursor = await self._connection.execute(
            "SELECT id, told, correlation_id FROM collections WHERE id = ANY (%s) ORDER BY id FOR UPDATE SKIP LOCKED",
            (list(collection_ids),),
        )
        before = {collection_id: (was, label) for collection_id, was, label in await cursor.fetchall()}
        async with self._connection.cursor(row_factory=dict_row) as rows:
            await rows.execute(f"{COLLECTIONS} WHERE c.id = ANY (%s)", (list(before),))
            now = [collection_of(row) for row in await rows.fetchall()]
        changed = [each for each in now if told(each.public()) != before[each.id][0]]
        await self._connection.cursor().executemany(
            "UPDATE collections SET told = %s WHERE id = %s",
            [(Json(told(each.public())), each.id) for each in changed],
        )
        return [Untold(each, before[each.id][1]) for each in changed]
