"""Deleted artifacts and abandoned uploads, in PostgreSQL."""

from collections.abc import Sequence

from libs.persistence import Database


class PostgresGarbage:
    """Abandons an upload before its bytes are removed, so that one which ends meanwhile notices."""

    def __init__(self, database: Database, *, upload_hours: float = 2.0, grace_minutes: float = 10.0) -> None:
        self._database = database
        self._upload_hours = upload_hours
        self._grace_minutes = grace_minutes

    async def abandon_uploads(self) -> int:
        async with self._database.connection() as connection:
            abandoned = await connection.execute(
                """UPDATE artifacts SET state = 'abandoned', state_since = now()
                   WHERE state = 'uploading' AND created_at < now() - %s * interval '1 hour'""",
                (self._upload_hours,),
            )
            return abandoned.rowcount

    async def deleted(self, limit: int) -> list[str]:
        return await self._ids(
            """SELECT id FROM artifacts WHERE state = 'deleted' AND bytes_gone_at IS NULL AND emptied_at IS NULL
               ORDER BY state_since LIMIT %s""",
            limit,
        )

    async def unreferenced(self, limit: int) -> list[str]:
        return await self._ids(
            """SELECT id FROM artifacts
               WHERE state IN ('abandoned', 'deleted') AND bytes_gone_at IS NULL
                 AND state_since <= now() - %s * interval '1 minute'
               ORDER BY state_since LIMIT %s""",
            self._grace_minutes,
            limit,
        )

    async def emptied(self, artifact_ids: Sequence[str]) -> None:
        await self._database.execute(
            "UPDATE artifacts SET emptied_at = now() WHERE id = ANY (%s) AND state = 'deleted'", (list(artifact_ids),)
        )

    async def forget(self, artifact_ids: Sequence[str]) -> None:
        ids = list(artifact_ids)
        async with self._database.transaction() as connection:
            await connection.execute("DELETE FROM artifacts WHERE id = ANY (%s) AND state = 'abandoned'", (ids,))
            await connection.execute(
                "UPDATE artifacts SET bytes_gone_at = now() WHERE id = ANY (%s) AND state = 'deleted'", (ids,)
            )

    async def _ids(self, query: str, *values: object) -> list[str]:
        return [artifact_id for (artifact_id,) in await self._database.execute(query, values)]
