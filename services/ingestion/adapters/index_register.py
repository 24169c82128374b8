"""Which indexes there should be, in PostgreSQL."""

from __future__ import annotations

from typing import Final

from libs.persistence import Database
from services.ingestion.domain.index_ports import Content, KnownIndex

# One that is being built exists when its first item does. A count that is wrong for good must not have an index made
# anew again and again: young ones are not settled.
_KNOWN: Final = """
    SELECT i.id, i.engine, k.id, k.company_id,
           i.state = 'live' AND i.created_at < now() - interval '1 day' AND NOT EXISTS (
               SELECT FROM ingestion_runs r
               WHERE r.knowledge_base_id = k.id AND r.state IN ('planning', 'running', 'finishing'))
    FROM knowledge_base_indexes i JOIN knowledge_bases k ON k.id = i.knowledge_base_id
    WHERE k.deleting_at IS NULL AND (
        i.state = 'live' OR i.state = 'building' AND EXISTS (SELECT FROM ingestion_items d WHERE d.index_id = i.id))
    ORDER BY i.id
"""
_CONTENT: Final = """
    SELECT coalesce(sum(chunks) FILTER (WHERE state = 'ingested'), 0)::bigint,
           concat_ws(' ', count(*), count(*) FILTER (WHERE state = 'ingested'), max(changed_at))
    FROM ingestion_items WHERE index_id = %s
"""


class PostgresIndexRegister:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def known(self) -> list[KnownIndex]:
        async with self._database.connection() as connection:
            return [KnownIndex(*row) for row in await (await connection.execute(_KNOWN)).fetchall()]

    async def content(self, index_id: str) -> Content:
        async with self._database.connection() as connection:
            row = await (await connection.execute(_CONTENT, (index_id,))).fetchone()
        assert row is not None
        return Content(*row)
