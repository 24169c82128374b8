"""Reads of artifacts from PostgreSQL."""

from typing import Any

from psycopg.rows import dict_row

from libs.persistence import Database
from services.artifacts.adapters.artifact_rows import STORED, artifact_of
from services.artifacts.domain.artifacts import StoredArtifact


class PostgresArtifactReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, artifact_id: str) -> StoredArtifact | None:
        rows = await self._rows(f"{STORED} AND a.id = %(id)s", {"id": artifact_id})
        return artifact_of(rows[0]) if rows else None

    async def page(self, session_id: str, *, limit: int, offset: int) -> tuple[list[StoredArtifact], int]:
        parameters = {"session": session_id, "limit": limit, "offset": offset}
        rows = await self._rows(
            f"""{STORED} AND a.session_id = %(session)s
                ORDER BY a.created_at DESC, a.id DESC LIMIT %(limit)s OFFSET %(offset)s""",
            parameters,
        )
        total = await self._rows(
            "SELECT count(*) AS total FROM artifacts WHERE session_id = %(session)s AND state = 'stored'", parameters
        )
        return [artifact_of(row) for row in rows], int(total[0]["total"])

    async def all(self, session_id: str) -> list[StoredArtifact]:
        rows = await self._rows(
            f"{STORED} AND a.session_id = %(session)s ORDER BY a.created_at, a.id", {"session": session_id}
        )
        return [artifact_of(row) for row in rows]

    async def _rows(self, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        async with (
            self._database.connection() as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            await cursor.execute(query, parameters)
            return await cursor.fetchall()
