"""Blobs without a file in PostgreSQL."""

from collections.abc import Sequence

from libs.persistence import Database


class PostgresUnusedBlobs:
    """Blobs are abandoned first and removed later, so that an upload which ends in between notices."""

    def __init__(
        self, database: Database, *, upload_hours: float = 2.0, unused_hours: float = 24.0, grace_minutes: float = 10.0
    ) -> None:
        self._database = database
        self._upload_hours = upload_hours
        self._unused_hours = unused_hours
        self._grace_minutes = grace_minutes

    async def abandon_unused(self) -> int:
        async with self._database.transaction() as connection:
            uploads = await connection.execute(
                """UPDATE blobs SET state = 'abandoned', unused_since = now() WHERE id IN (
                       SELECT id FROM blobs WHERE state = 'uploading' AND created_at < now() - %s * interval '1 hour'
                       FOR UPDATE SKIP LOCKED)""",
                (self._upload_hours,),
            )
            found = await connection.execute(
                """SELECT id FROM blobs WHERE state = 'stored' AND unused_since < now() - %s * interval '1 hour'
                   ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED""",
                (self._unused_hours,),
            )
            ids = [blob_id for (blob_id,) in await found.fetchall()]
            # A second statement sees files that were made before the lock was taken.
            await connection.execute(
                """UPDATE blobs b SET unused_since = NULL
                   WHERE b.id = ANY (%s) AND EXISTS (SELECT FROM files f WHERE f.blob_id = b.id)""",
                (ids,),
            )
            unused = await connection.execute(
                """UPDATE blobs SET state = 'abandoned', unused_since = now()
                   WHERE id = ANY (%s) AND unused_since IS NOT NULL""",
                (ids,),
            )
            return uploads.rowcount + unused.rowcount

    async def abandoned(self, limit: int) -> list[str]:
        found = await self._database.execute(
            """SELECT id FROM blobs
               WHERE state = 'abandoned' AND unused_since <= now() - %s * interval '1 minute'
               ORDER BY unused_since LIMIT %s""",
            (self._grace_minutes, limit),
        )
        return [blob_id for (blob_id,) in found]

    async def delete(self, blob_ids: Sequence[str]) -> None:
        await self._database.execute(
            """DELETE FROM blobs WHERE id IN (
                   SELECT id FROM blobs WHERE id = ANY (%s) AND state = 'abandoned' ORDER BY id FOR UPDATE)""",
            (list(blob_ids),),
        )
