"""Changes of files in PostgreSQL, inside a transaction of the caller's.

Files are locked before collections, both in the order of their ids, so that no two changes wait for each other.
"""

from collections.abc import Sequence

from psycopg.rows import dict_row

from libs.contracts.api.files import FileStatus
from libs.persistence import Connection
from services.ingestion.adapters.file_rows import LIVE_FILES, file_of, storable
from services.ingestion.domain.files import StoredFile


class PostgresFileWriter:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def lock(self, company_id: str, file_ids: Sequence[str]) -> dict[str, StoredFile]:
        parameters = {"company": company_id, "ids": storable(file_ids)}
        # Two statements: one that waited for a lock would not see what was added to collections meanwhile.
        await self._connection.execute(
            """SELECT FROM files WHERE id = ANY (%(ids)s) AND company_id = %(company)s AND deleted_at IS NULL
               ORDER BY id FOR UPDATE""",
            parameters,
        )
        async with self._connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(f"{LIVE_FILES} AND f.id = ANY (%(ids)s)", parameters)
            return {row["id"]: file_of(row) for row in await cursor.fetchall()}

    async def set_tags(self, file_ids: Sequence[str], tags: Sequence[str]) -> None:
        await self._connection.execute(
            "UPDATE files SET tags = %s, updated_at = clock_timestamp() WHERE id = ANY (%s)",
            (list(tags), list(file_ids)),
        )

    async def set_status(self, file_ids: Sequence[str], status: FileStatus) -> None:
        await self._connection.execute(
            "UPDATE files SET status = %s, updated_at = clock_timestamp() WHERE id = ANY (%s)",
            (status, list(file_ids)),
        )

    async def delete(self, file_ids: Sequence[str], correlation_id: str) -> None:
        ids = list(file_ids)
        await self._leave_collections(ids, correlation_id)
        deleted = await self._connection.execute(
            """WITH before AS (SELECT id, blob_id FROM files WHERE id = ANY (%(ids)s))
               UPDATE files f SET blob_id = NULL, tags = '{}', deleted_at = now(), updated_at = clock_timestamp()
               FROM before WHERE f.id = before.id RETURNING before.blob_id""",
            {"ids": ids},
        )
        blobs = [blob_id for (blob_id,) in await deleted.fetchall()]
        await self._leave_indexes(ids)
        await self._connection.execute(
            # In the order in which uploads take them.
            """WITH held AS MATERIALIZED (SELECT id FROM blobs WHERE id = ANY (%s) ORDER BY sha256 FOR UPDATE)
               UPDATE blobs b SET unused_since = now()
               FROM held WHERE b.id = held.id AND NOT EXISTS (SELECT FROM files f WHERE f.blob_id = b.id)""",
            (blobs,),
        )

    async def _leave_collections(self, file_ids: list[str], correlation_id: str) -> None:
        await self._connection.execute(
            """SELECT FROM collections c
               WHERE EXISTS (SELECT FROM collection_files cf WHERE cf.collection_id = c.id AND cf.file_id = ANY (%s))
               ORDER BY c.id FOR UPDATE""",
            (file_ids,),
        )
        await self._connection.execute(
            """WITH gone AS (DELETE FROM collection_files WHERE file_id = ANY (%s) RETURNING collection_id)
               UPDATE collections SET files_changed_at = now(), updated_at = clock_timestamp(), correlation_id = %s
               WHERE id IN (SELECT collection_id FROM gone)""",
            (file_ids, correlation_id),
        )

    async def _leave_indexes(self, file_ids: list[str]) -> None:
        """Whoever is just writing them finds that they are unwanted, and takes them out again."""
        await self._connection.execute(
            """WITH held AS MATERIALIZED (
                   SELECT index_id, file_id FROM ingestion_items WHERE file_id = ANY (%s)
                   ORDER BY index_id, file_id FOR UPDATE)
               UPDATE ingestion_items d
               SET state = 'removing', phase = '', attempts = 0, sent_at = NULL, retry_at = NULL, changed_at = now()
               FROM held WHERE (d.index_id, d.file_id) = (held.index_id, held.file_id) AND d.state <> 'removing'""",
            (file_ids,),
        )
