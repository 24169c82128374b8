"""Reads of files from PostgreSQL."""

from typing import Any

from psycopg.rows import dict_row

from libs.persistence import Database
from services.ingestion.adapters.file_rows import LIVE_FILES, file_of
from services.ingestion.domain.file_ports import FileFilter
from services.ingestion.domain.files import StoredFile

_CONDITIONS = {
    "status": "f.status = %(status)s",
    "tag": "%(tag)s = ANY (f.tags)",
    "collection_id": "EXISTS (SELECT FROM collection_files c WHERE c.file_id = f.id"
    " AND c.collection_id = %(collection_id)s)",
    "name": "f.name ILIKE %(name)s",
}


class PostgresFileReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, company_id: str, file_id: str) -> StoredFile | None:
        if "\x00" in file_id:
            return None
        rows = await self._rows(f"{LIVE_FILES} AND f.id = %(id)s", {"company": company_id, "id": file_id})
        return file_of(rows[0]) if rows else None

    async def page(
        self, company_id: str, which: FileFilter, *, limit: int, offset: int
    ) -> tuple[list[StoredFile], int]:
        given = {name: value for name in _CONDITIONS if (value := getattr(which, name)) is not None}
        if any("\x00" in value for value in given.values()):
            return [], 0
        if "name" in given:
            given["name"] = _containing(given["name"])
        condition = "".join(f" AND {_CONDITIONS[name]}" for name in given)
        parameters = {"company": company_id, "limit": limit, "offset": offset, **given}
        rows = await self._rows(
            f"""{LIVE_FILES} {condition}
                ORDER BY f.created_at DESC, f.id DESC LIMIT %(limit)s OFFSET %(offset)s""",
            parameters,
        )
        total = await self._rows(
            f"""SELECT count(*) AS total FROM files f
                WHERE f.deleted_at IS NULL AND f.company_id = %(company)s {condition}""",
            parameters,
        )
        return [file_of(row) for row in rows], int(total[0]["total"])

    async def _rows(self, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        async with (
            self._database.connection() as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            await cursor.execute(query, parameters)
            return await cursor.fetchall()


def _containing(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
