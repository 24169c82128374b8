"""Reads and changes collections, and records their published states."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from psycopg.types.json import Json

from libs.contracts.pages import Page
from libs.eventing import Transaction
from libs.persistence import Connection, Database, Order, fetch_page, fetch_records
from services.ingestion.domain.collections import CollectionNotFound, Content, StoredCollection, published_state

_COLUMNS: Final = """
    c.id, c.company_id, c.name, c.description, c.created_at, c.updated_at,
    n.files, n.total_size, n.parsed, n.failed, n.begun
"""
# OFFSET 0 makes the planner look up each collection's files separately, even if its statistics show few collections.
# With a join, it would read all files for each collection.
_WITH_CONTENT: Final = """
    FROM collections c
    CROSS JOIN LATERAL (
        SELECT count(*) AS files, coalesce(sum(f.size), 0)::bigint AS total_size,
               count(*) FILTER (WHERE t.state = 'parsed') AS parsed,
               count(*) FILTER (WHERE t.state = 'failed') AS failed,
               coalesce(bool_or(t.state = 'running'
                   OR (t.state IN ('parsed', 'failed') AND t.changed_at >= c.files_changed_at)), false) AS begun
        FROM collection_files cf
        CROSS JOIN LATERAL (
            SELECT size, blob_id, content_type FROM files WHERE id = cf.file_id AND deleted_at IS NULL OFFSET 0) f
        LEFT JOIN LATERAL (
            SELECT state, changed_at FROM texts
            WHERE blob_id = f.blob_id AND content_type = f.content_type OFFSET 0) t ON true
        WHERE cf.collection_id = c.id
    ) n
"""
COLLECTIONS: Final = f"SELECT {_COLUMNS} {_WITH_CONTENT}"
_CONTENT: Final = ("files", "total_size", "parsed", "failed", "begun")


def collection_of(row: dict[str, Any]) -> StoredCollection:
    content = Content(**{name: row[name] for name in _CONTENT})
    return StoredCollection(**{name: value for name, value in row.items() if name not in _CONTENT}, content=content)


def _only(rows: Sequence[dict[str, Any]]) -> StoredCollection:
    if not rows:
        raise CollectionNotFound()
    return collection_of(rows[0])


_NEWEST_FIRST: Final = Order(("c.created_at", "c.id"), ("timestamptz", "text"))


class PostgresCollectionReader:
    """Reads collections with totals across their files."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, company_id: str, collection_id: str) -> StoredCollection:
        """Returns a collection. Raises ``CollectionNotFound``."""
        key = (company_id, collection_id)
        return _only(await self._database.records(f"{COLLECTIONS} WHERE (c.company_id, c.id) = (%s, %s)", key))

    async def page(
        self, company_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[StoredCollection]:
        """Returns a page of collections, newest first."""
        of_company = "WHERE company_id = %(company)s"
        async with self._database.connection() as connection:
            page = await fetch_page(
                connection, _COLUMNS, f"{_WITH_CONTENT} {of_company}", _NEWEST_FIRST, {"company": company_id},
                limit=limit, offset=offset, cursor=cursor, counted=f"FROM collections {of_company}",
            )  # fmt: skip
        return page.map(collection_of)

    async def all(self, company_id: str) -> list[StoredCollection]:
        """Returns all of the company's collections, newest first."""
        rows = await self._database.records(f"{COLLECTIONS} WHERE c.company_id = %s {_NEWEST_FIRST.by}", (company_id,))
        return [collection_of(row) for row in rows]


class PostgresCollectionWriter:
    """Changes collections in the caller's transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.connection

    async def add(self, collection: StoredCollection, created_by: str, correlation_id: str) -> None:
        await self._connection.execute(
            """INSERT INTO collections
                   (id, company_id, name, description, created_by, created_at, updated_at, published, correlation_id)
               VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)""",
            (
                collection.id, collection.company_id, collection.name, collection.description, created_by,
                collection.created_at, collection.updated_at, Json(published_state(collection.public())),
                correlation_id,
            ),
        )  # fmt: skip

    async def lock(self, company_id: str, collection_id: str) -> StoredCollection:
        """Locks the collection until the end of the transaction. Raises ``CollectionNotFound``."""
        key = (company_id, collection_id)
        # Read in a second statement: after waiting for the lock, the first one would miss recently added files.
        await self._connection.execute("SELECT FROM collections WHERE (company_id, id) = (%s, %s) FOR UPDATE", key)
        statement = f"{COLLECTIONS} WHERE (c.company_id, c.id) = (%s, %s)"
        return _only(await fetch_records(self._connection, statement, key))

    async def describe(self, collection_id: str, name: str | None, description: str | None) -> None:
        """Sets the name and description. A value of None changes nothing."""
        await self._connection.execute(
            """UPDATE collections SET name = coalesce(%s, name), description = coalesce(%s, description),
                   updated_at = clock_timestamp() WHERE id = %s""",
            (name, description, collection_id),
        )

    async def delete(self, collection_id: str) -> None:
        await self._connection.execute("DELETE FROM collections WHERE id = %s", (collection_id,))

    async def add_files(self, collection_id: str, file_ids: Sequence[str], correlation_id: str) -> set[str]:
        """Adds files to the collection. Returns the IDs that are new in the collection."""
        added = await self._connection.execute(
            """INSERT INTO collection_files (collection_id, file_id, added_at)
               SELECT %s, id, clock_timestamp() FROM unnest(%s::text[]) AS id
               ON CONFLICT DO NOTHING RETURNING file_id""",
            (collection_id, list(file_ids)),
        )
        ids = {file_id for (file_id,) in await added.fetchall()}
        if ids:
            await self._touch(collection_id, correlation_id)
        return ids

    async def remove_file(self, collection_id: str, file_id: str, correlation_id: str) -> bool:
        """Removes a file from the collection. Returns False if the collection didn't contain it."""
        removed = await self._connection.execute(
            "DELETE FROM collection_files WHERE collection_id = %s AND file_id = %s", (collection_id, file_id)
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


# A change has its transaction's start time, but only becomes visible at the commit. The period that each call covers
# therefore overlaps with that of the previous call.
_CHANGED: Final = """
    SELECT ARRAY(
        SELECT id FROM collections WHERE files_changed_at >= %(since)s
        UNION
        SELECT cf.collection_id FROM texts t
        JOIN files f ON f.blob_id = t.blob_id AND f.content_type = t.content_type
        JOIN collection_files cf ON cf.file_id = f.id
        WHERE t.changed_at >= %(since)s
    ), now() - interval '45 seconds'
"""


async def changed_since(database: Database, since: datetime | None) -> tuple[list[str], datetime]:
    """Returns collections whose files or texts changed after ``since``, and the ``since`` for the next call.

    If ``since`` is None, returns all collections.
    """
    [[found, until]] = await database.execute(_CHANGED, {"since": since or "-infinity"})
    return found, until


async def record_changed(connection: Connection, collection_ids: Sequence[str]) -> list[tuple[StoredCollection, str]]:
    """Records the collections' current states as published.

    Returns the collections whose state has changed, with the correlation IDs of the changes. Collections that another
    transaction has locked are skipped.
    """
    cursor = await connection.execute(
        "SELECT id, published, correlation_id FROM collections WHERE id = ANY (%s) ORDER BY id FOR UPDATE SKIP LOCKED",
        (list(collection_ids),),
    )
    before = {row[0]: row[1:] for row in await cursor.fetchall()}
    rows = await fetch_records(connection, f"{COLLECTIONS} WHERE c.id = ANY (%s)", (list(before),))
    now = [collection_of(row) for row in rows]
    changed = [each for each in now if published_state(each.public()) != before[each.id][0]]
    await connection.cursor().executemany(
        "UPDATE collections SET published = %s WHERE id = %s",
        [(Json(published_state(each.public())), each.id) for each in changed],
    )
    return [(each, before[each.id][1]) for each in changed]
