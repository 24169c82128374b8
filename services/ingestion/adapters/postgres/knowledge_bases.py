"""Reads knowledge bases and converts their rows."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, Literal

from libs.contracts.pages import Page
from libs.contracts.resources.knowledge_bases import ChunkingStrategy, DatasourceError
from libs.persistence import NEWEST_FIRST, Connection, Database, Order, fetch_page, fetch_records, fetch_value
from services.ingestion.domain.knowledge_bases import (
    IndexSettings,
    KnowledgeBaseNotFound,
    KnowledgeBaseView,
    LiveIndex,
    Source,
    StoredKnowledgeBase,
)

_COLUMNS: Final = """
    id, company_id, name, description, collection_ids, file_ids, settings, llm_config, status, status_version, index_id,
    run_id, created_by, created_by_name, company_name, created_at, updated_at
"""
_LIVE: Final = "FROM knowledge_bases WHERE deleting_at IS NULL"
LIVE: Final = f"SELECT {_COLUMNS} {_LIVE}"
_BY_ID: Final = Order(("id",), ("text",), descending=False)
# The index that an ingestion fills: the one under construction, or else the searched one.
TARGET_INDEX: Final = """
    (SELECT i.id FROM knowledge_base_indexes i WHERE i.knowledge_base_id = k.id AND i.state IN ('building', 'live')
     ORDER BY i.state LIMIT 1)
"""
_SOURCE_COLUMNS: Final = "id, name, status, state, phase, chunks, error"
# Selects the files of the knowledge bases, and the files that are still in their indexes. OFFSET 0 prevents a full
# cross join, which PostgreSQL would plan before the tables are analyzed.
_SOURCES: Final = f"""
    WITH target AS MATERIALIZED (
        SELECT k.id, k.company_id, k.collection_ids, k.file_ids, {TARGET_INDEX} AS index_id
        FROM knowledge_bases k WHERE k.id = ANY (%(ids)s)
    ), wanted AS (
        SELECT target.id AS base_id, company_id, index_id, unnest(file_ids) AS id FROM target
        UNION SELECT target.id, company_id, index_id, cf.file_id FROM target CROSS JOIN LATERAL (
            SELECT file_id FROM collection_files WHERE collection_id = ANY (target.collection_ids) OFFSET 0) cf
        UNION SELECT target.id, company_id, index_id, d.file_id FROM target CROSS JOIN LATERAL (
            SELECT file_id FROM ingestion_items WHERE index_id = target.index_id OFFSET 0) d
    )
    SELECT base_id, f.id, f.name, f.status, coalesce(d.state, 'pending') AS state, coalesce(d.phase, '') AS phase,
           coalesce(d.chunks, 0) AS chunks, d.error
    FROM wanted CROSS JOIN LATERAL (
        SELECT id, name, status, deleted_at, company_id FROM files WHERE id = wanted.id OFFSET 0) f
    LEFT JOIN LATERAL (
        SELECT state, phase, chunks, error FROM ingestion_items
        WHERE index_id = wanted.index_id AND file_id = f.id OFFSET 0) d ON true
    WHERE f.deleted_at IS NULL AND f.company_id = wanted.company_id AND d.state IS DISTINCT FROM 'removing'
    ORDER BY f.id
"""
_RUNS: Final = "SELECT id, state, failure FROM ingestion_runs WHERE id = ANY (%s)"


def settings_of(stored: Mapping[str, Any]) -> IndexSettings:
    return IndexSettings(
        stored["engine"],
        ChunkingStrategy.model_validate(stored["chunking"]),
        stored["provider"],
        stored["model"],
        stored["dimensions"],
    )


def settings_json(settings: IndexSettings) -> dict[str, Any]:
    return {"engine": settings.engine, "chunking": settings.chunking.model_dump(), **settings.embedding()}


def knowledge_base_of(row: Mapping[str, Any]) -> StoredKnowledgeBase:
    fields = dict(row)
    for name in ("collection_ids", "file_ids"):
        fields[name] = tuple(fields[name])
    return StoredKnowledgeBase(**{**fields, "settings": settings_of(fields["settings"])})


def _source_of(row: Sequence[Any]) -> Source:
    file_id, name, status, state, phase, chunks, error = row
    return Source(file_id, name, status, state, phase, chunks, DatasourceError(**error) if error else None)


async def view_of(connection: Connection, stored: StoredKnowledgeBase) -> KnowledgeBaseView:
    """Returns the knowledge base with its files. The caller must hold a lock or a snapshot."""
    return (await _views_of(connection, [stored]))[0]


async def _views_of(connection: Connection, bases: Sequence[StoredKnowledgeBase]) -> list[KnowledgeBaseView]:
    sources: dict[str, list[Source]] = {base.id: [] for base in bases}
    found = await connection.execute(_SOURCES, {"ids": list(sources)})
    for base_id, *source in await found.fetchall():
        sources[base_id].append(_source_of(source))
    found = await connection.execute(_RUNS, ([base.run_id for base in bases],))
    runs: dict[str | None, Any] = {run_id: run for run_id, *run in await found.fetchall()}
    return [KnowledgeBaseView(base, tuple(sources[base.id]), *runs.get(base.run_id, ())) for base in bases]


class PostgresKnowledgeBaseReader:
    """Reads knowledge bases. Methods with an ID raise ``KnowledgeBaseNotFound``.

    Deleted and other companies' knowledge bases count as missing.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, company_id: str, knowledge_base_id: str) -> StoredKnowledgeBase:
        async with self._database.connection() as connection:
            return await find(connection, company_id, knowledge_base_id)

    async def view(self, company_id: str, knowledge_base_id: str) -> KnowledgeBaseView:
        async with self._moment() as connection:
            return await view_of(connection, await find(connection, company_id, knowledge_base_id))

    async def page(
        self,
        company_id: str,
        *,
        limit: int,
        offset: int,
        after: str | None = None,
        oldest_first: bool = False,
        cursor: str | None = None,
    ) -> Page[KnowledgeBaseView]:
        """Returns a page of knowledge bases, newest first by default.

        ``after`` is the ID of the last knowledge base before the page.
        """
        source = f"{_LIVE} AND company_id = %(company)s"
        if after is not None:
            source += f""" AND (created_at, id) {">" if oldest_first else "<"} (
                SELECT a.created_at, a.id FROM knowledge_bases a
                WHERE a.id = %(after)s AND a.company_id = %(company)s)"""
        order = replace(NEWEST_FIRST, descending=not oldest_first)
        async with self._moment() as connection:
            page = await fetch_page(
                connection, _COLUMNS, source, order, {"company": company_id, "after": after},
                limit=limit, offset=offset, cursor=cursor,
            )  # fmt: skip
            views = await _views_of(connection, [knowledge_base_of(row) for row in page.items])
        return Page(views, page.total, page.total_is_exact, page.next)

    async def live_index(self, company_id: str, knowledge_base_id: str) -> LiveIndex:
        async with self._moment() as connection:
            stored = await find(connection, company_id, knowledge_base_id)
            of_index = await fetch_value(
                connection,
                "SELECT settings FROM knowledge_base_indexes WHERE id = %s AND state <> 'dropping'",
                (stored.index_id,),
            )
            settings = settings_of(of_index) if of_index else stored.settings
            given_up = of_index is None and stored.index_id is not None
            return LiveIndex(stored.id, stored.name, stored.index_id, settings, given_up=given_up)

    async def sources(
        self, company_id: str, knowledge_base_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[Source]:
        """Returns a page of the knowledge base's files, sorted by ID."""
        async with self._moment() as connection:
            await find(connection, company_id, knowledge_base_id)
            page = await fetch_page(
                connection, _SOURCE_COLUMNS, f"FROM ({_SOURCES}) sources WHERE true", _BY_ID,
                {"ids": [knowledge_base_id]},
                limit=limit, offset=offset, cursor=cursor,
            )  # fmt: skip
        return page.map(lambda row: _source_of(tuple(row.values())))

    async def mark_seen(self, knowledge_base_id: str, user_id: str, status_version: int) -> bool:
        """Records the status version that a user has seen. Returns whether the user had already seen this version."""
        async with self._database.transaction() as connection:
            seen = await fetch_value(
                connection,
                """SELECT status_version FROM knowledge_base_views
                   WHERE knowledge_base_id = %s AND user_id = %s FOR UPDATE""",
                (knowledge_base_id, user_id),
            )
            if seen != status_version:
                await connection.execute(
                    """INSERT INTO knowledge_base_views AS v VALUES (%s, %s, %s)
                       ON CONFLICT (knowledge_base_id, user_id)
                       DO UPDATE SET status_version = greatest(v.status_version, EXCLUDED.status_version)""",
                    (knowledge_base_id, user_id, status_version),
                )
            # On the first call, the user counts as having seen the initial status.
            return bool((seen or 0) >= status_version)

    @asynccontextmanager
    async def _moment(self) -> AsyncIterator[Connection]:
        async with self._database.transaction() as connection:
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield connection


async def find(
    connection: Connection, company_id: str, knowledge_base_id: str, lock: Literal["", "FOR UPDATE"] = ""
) -> StoredKnowledgeBase:
    """Returns the knowledge base. Raises ``KnowledgeBaseNotFound``."""
    statement = f"{LIVE} AND company_id = %s AND id = %s {lock}"
    rows = await fetch_records(connection, statement, (company_id, knowledge_base_id))
    if not rows:
        raise KnowledgeBaseNotFound()
    return knowledge_base_of(rows[0])
