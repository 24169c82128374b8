"""Reads, adds and changes files, and selects the files for a search."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from libs.blobs import ReceivedFile, release
from libs.contracts.pages import Page
from libs.contracts.resources.files import FileStatus
from libs.contracts.resources.knowledge_bases import SearchFilters
from libs.eventing import Transaction
from libs.persistence import Database, Order, fetch_page, fetch_records
from libs.quotas import CompanyAmounts
from services.ingestion.domain.engines import FileSelection
from services.ingestion.domain.files import FileFilter, FileNotFound, StoredFile

FILES: Final = "files"
FILE_BYTES: Final = "file_bytes"
_COLUMNS: Final = """
    f.id, f.company_id, f.blob_id, f.name, f.content_type, f.size, f.sha256, f.status, f.tags, f.created_at,
    f.updated_at, ARRAY(SELECT cf.collection_id FROM collection_files cf WHERE cf.file_id = f.id
                        ORDER BY cf.added_at, cf.collection_id) AS collection_ids
"""
_LIVE: Final = "FROM files f WHERE f.deleted_at IS NULL AND f.company_id = %(company)s"
LIVE_FILES: Final = f"SELECT {_COLUMNS} {_LIVE}"


def file_of(row: dict[str, Any]) -> StoredFile:
    return StoredFile(**{**row, "tags": tuple(row["tags"]), "collection_ids": tuple(row["collection_ids"])})


# Counts a collection's files without reading them, because deleting a file also removes it from its collections.
_OF_COLLECTION: Final = """
    FROM collection_files c WHERE c.collection_id = %(collection_id)s
      AND EXISTS (SELECT FROM collections WHERE id = %(collection_id)s AND company_id = %(company)s)
"""
_CONDITIONS = {
    "status": "f.status = %(status)s",
    # The second condition matches that of the index, so the planner can use it.
    "tag": "f.tags @> ARRAY[%(tag)s] AND f.tags <> '{}'",
    "collection_id": "EXISTS (SELECT FROM collection_files c WHERE c.file_id = f.id"
    " AND c.collection_id = %(collection_id)s)",
    "name": "f.name ILIKE %(name)s",
    "after": "(f.created_at, f.id) {beyond} (SELECT created_at, id FROM files WHERE id = %(after)s"
    " AND company_id = %(company)s)",
}


class PostgresFileReader:
    """Reads files. Deleted files and other companies' files count as missing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, company_id: str, file_id: str) -> StoredFile:
        """Returns a file. Raises ``FileNotFound``."""
        rows = await self._database.records(f"{LIVE_FILES} AND f.id = %(id)s", {"company": company_id, "id": file_id})
        if not rows:
            raise FileNotFound()
        return file_of(rows[0])

    async def page(
        self, company_id: str, which: FileFilter, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[StoredFile]:
        """Returns a page of files, newest first by default."""
        given = {name: value for name in _CONDITIONS if (value := getattr(which, name)) is not None}
        if "name" in given:
            given["name"] = _containing(given["name"])
        beyond = ">" if which.oldest_first else "<"
        order = Order(("f.created_at", "f.id"), ("timestamptz", "text"), descending=not which.oldest_first)
        condition = "".join(f" AND {_CONDITIONS[name]}" for name in given).replace("{beyond}", beyond)
        async with self._database.connection() as connection:
            page = await fetch_page(
                connection, _COLUMNS, f"{_LIVE}{condition}", order, {"company": company_id, **given},
                limit=limit, offset=offset, cursor=cursor,
                counted=_OF_COLLECTION if given.keys() == {"collection_id"} else None,
            )  # fmt: skip
        return page.map(file_of)


def _containing(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


class PostgresFileWriter:
    """Changes files in the caller's transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.connection

    async def add(
        self, company_id: str, user_id: str, files: Mapping[str, ReceivedFile], amounts: CompanyAmounts
    ) -> list[StoredFile]:
        """Adds files by their new IDs. Raises ``QuotaExceeded``."""
        wanted = {FILES: len(files), FILE_BYTES: sum(file.size for file in files.values())}
        await amounts.check(self._connection, company_id, wanted)
        for file_id, file in files.items():
            await self._connection.execute(
                "INSERT INTO texts (blob_id, content_type, company_id) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                (file.blob_id, file.content_type, company_id),
            )
            await self._connection.execute(
                """INSERT INTO files (id, company_id, blob_id, name, content_type, size, sha256, created_by)
                   VALUES (%s, %s, %s, %s, %s, %s, %s, %s)""",
                (
                    file_id, company_id, file.blob_id, file.name, file.content_type, file.size, file.sha256, user_id,
                ),
            )  # fmt: skip
        return await self.get(company_id, list(files))

    async def get(self, company_id: str, file_ids: Sequence[str]) -> list[StoredFile]:
        rows = await fetch_records(
            self._connection,
            f"{LIVE_FILES} AND f.id = ANY (%(ids)s) ORDER BY array_position(%(ids)s, f.id)",
            {"company": company_id, "ids": list(file_ids)},
        )
        return [file_of(row) for row in rows]

    async def lock(self, company_id: str, file_ids: Sequence[str]) -> dict[str, StoredFile]:
        """Locks the files until the end of the transaction. Returns the files that exist, by ID."""
        parameters = {"company": company_id, "ids": list(file_ids)}
        # Read in a second statement: after waiting for the lock, the first one would miss recently added collections.
        await self._connection.execute(
            """SELECT FROM files WHERE id = ANY (%(ids)s) AND company_id = %(company)s AND deleted_at IS NULL
               ORDER BY id FOR UPDATE""",
            parameters,
        )
        locked = await fetch_records(self._connection, f"{LIVE_FILES} AND f.id = ANY (%(ids)s)", parameters)
        return {row["id"]: file_of(row) for row in locked}

    async def change(self, file_ids: Sequence[str], tags: list[str] | None, status: FileStatus | None) -> None:
        """Sets the files' tags and status. A value of None changes nothing."""
        await self._connection.execute(
            """UPDATE files SET tags = coalesce(%s, tags), status = coalesce(%s, status), updated_at = clock_timestamp()
               WHERE id = ANY (%s)""",
            (tags, status, list(file_ids)),
        )

    async def delete(self, file_ids: Sequence[str], correlation_id: str) -> None:
        """Deletes locked files, and removes them from collections and indexes."""
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
        await release(self._connection, blobs)

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
        """Queues the files' removal from indexes. A worker that is still indexing a file will remove its chunks."""
        await self._connection.execute(
            """WITH held AS MATERIALIZED (
                   SELECT index_id, file_id FROM ingestion_items WHERE file_id = ANY (%s)
                   ORDER BY index_id, file_id FOR UPDATE)
               UPDATE ingestion_items d
               SET state = 'removing', phase = '', attempts = 0, sent_at = NULL, retry_at = NULL, changed_at = now()
               FROM held WHERE (d.index_id, d.file_id) = (held.index_id, held.file_id) AND d.state <> 'removing'""",
            (file_ids,),
        )


_SEARCH_CONDITIONS = {
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
        given = {name: value for name in _SEARCH_CONDITIONS if (value := getattr(filters, name))}
        parameters = {"index": index_id, "company": company_id, **given}
        if not given:
            # There are few inactive files, so excluding them is cheaper than listing the active ones.
            unwanted = f"{_INDEXED} AND (f.status <> 'active' OR f.deleted_at IS NOT NULL)"
            return FileSelection(without=await self._ids(unwanted, parameters))
        conditions = "".join(f" AND {_SEARCH_CONDITIONS[name]}" for name in given)
        active = f"{_INDEXED} AND f.status = 'active' AND f.deleted_at IS NULL"
        return FileSelection(only=await self._ids(active + conditions, parameters))

    async def names(self, company_id: str, file_ids: Collection[str]) -> Mapping[str, str]:
        query = """
            SELECT id, name FROM files
            WHERE id = ANY (%s) AND company_id = %s AND deleted_at IS NULL AND status = 'active'
        """
        found = await self._database.execute(query, (list(file_ids), company_id))
        return {row[0]: row[1] for row in found}

    async def _ids(self, query: str, parameters: Mapping[str, Any]) -> frozenset[str]:
        found = await self._database.execute(query, parameters)
        return frozenset(row[0] for row in found)
