"""Reads of knowledge bases in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg.rows import dict_row

from libs.persistence import Connection, Database
from services.ingestion.adapters.file_rows import storable
from services.ingestion.adapters.knowledge_rows import (
    LIVE,
    SOURCES,
    knowledge_base_of,
    settings_of,
    source_of,
    view_of,
)
from services.ingestion.domain.knowledge_bases import KnowledgeBaseView, LiveIndex, Source, StoredKnowledgeBase


class PostgresKnowledgeBaseReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, company_id: str, knowledge_base_id: str) -> StoredKnowledgeBase | None:
        async with self._database.connection() as connection:
            return await _get(connection, company_id, knowledge_base_id)

    async def view(self, company_id: str, knowledge_base_id: str) -> KnowledgeBaseView | None:
        async with self._moment() as connection:
            stored = await _get(connection, company_id, knowledge_base_id)
            return await view_of(connection, stored) if stored else None

    async def page(self, company_id: str, *, limit: int, offset: int) -> tuple[list[KnowledgeBaseView], int]:
        async with self._moment() as connection:
            counted = await connection.execute(
                "SELECT count(*) FROM knowledge_bases WHERE deleting_at IS NULL AND company_id = %s", (company_id,)
            )
            total = await counted.fetchone()
            async with connection.cursor(row_factory=dict_row) as cursor:
                await cursor.execute(
                    f"{LIVE} AND company_id = %s ORDER BY created_at DESC, id DESC LIMIT %s OFFSET %s",
                    (company_id, limit, offset),
                )
                found = [knowledge_base_of(row) for row in await cursor.fetchall()]
            return [await view_of(connection, each) for each in found], total[0] if total else 0

    async def live_index(self, company_id: str, knowledge_base_id: str) -> LiveIndex | None:
        async with self._moment() as connection:
            stored = await _get(connection, company_id, knowledge_base_id)
            if stored is None:
                return None
            cursor = await connection.execute(
                "SELECT settings FROM knowledge_base_indexes WHERE id = %s AND state <> 'dropping'", (stored.index_id,)
            )
            row = await cursor.fetchone()
            settings = settings_of(row[0]) if row else stored.settings
            given_up = row is None and stored.index_id is not None
            return LiveIndex(stored.id, stored.name, stored.index_id, settings, given_up=given_up)

    async def sources(
        self, company_id: str, knowledge_base_id: str, *, limit: int, offset: int
    ) -> tuple[list[Source], int] | None:
        async with self._moment() as connection:
            if await _get(connection, company_id, knowledge_base_id) is None:
                return None
            counted = await connection.execute(f"SELECT count(*) FROM ({SOURCES}) s", {"id": knowledge_base_id})
            total = await counted.fetchone()
            found = await connection.execute(
                f"{SOURCES} LIMIT %(limit)s OFFSET %(offset)s",
                {"id": knowledge_base_id, "limit": limit, "offset": offset},
            )
            return [source_of(row) for row in await found.fetchall()], total[0] if total else 0

    async def seen(self, knowledge_base_id: str, user_id: str, status_version: int) -> bool:
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                """SELECT status_version FROM knowledge_base_views
                   WHERE knowledge_base_id = %s AND user_id = %s FOR UPDATE""",
                (knowledge_base_id, user_id),
            )
            row = await cursor.fetchone()
            # Whoever asks for the first time knows the status that it was created with.
            before = row[0] if row else 0
            if before != status_version or row is None:
                await connection.execute(
                    """INSERT INTO knowledge_base_views AS v VALUES (%s, %s, %s)
                       ON CONFLICT (knowledge_base_id, user_id)
                       DO UPDATE SET status_version = greatest(v.status_version, EXCLUDED.status_version)""",
                    (knowledge_base_id, user_id, status_version),
                )
            return bool(before >= status_version)

    @asynccontextmanager
    async def _moment(self) -> AsyncIterator[Connection]:
        async with self._database.transaction() as connection:
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield connection


async def _get(connection: Connection, company_id: str, knowledge_base_id: str) -> StoredKnowledgeBase | None:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(
            f"{LIVE} AND company_id = %s AND id = ANY (%s)", (company_id, storable([knowledge_base_id]))
        )
        row = await cursor.fetchone()
    return knowledge_base_of(row) if row else None
