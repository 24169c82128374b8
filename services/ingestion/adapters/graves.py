"""Indexes that nobody wants any more, and the knowledge bases that end with them, in PostgreSQL."""

from __future__ import annotations

from typing import Final

from libs.contracts.events.ingestion import KnowledgeBaseDeleted
from libs.eventing import MessageContext, Outbox, Transaction
from libs.persistence import Database

_BURY: Final = """
    WITH ended AS MATERIALIZED (
        SELECT k.id FROM knowledge_bases k
        WHERE k.deleting_at IS NOT NULL AND k.deleted_at IS NULL
          AND NOT EXISTS (SELECT FROM knowledge_base_indexes i WHERE i.knowledge_base_id = k.id)
        FOR UPDATE OF k SKIP LOCKED)
    UPDATE knowledge_bases k SET deleted_at = now(), name = '', description = '', llm_config = '{}'
    FROM ended, ingestion_runs r
    WHERE k.id = ended.id AND r.id = k.run_id AND k.deleted_at IS NULL
    RETURNING k.id, r.company_id, r.correlation_id, r.causation_id, r.traceparent
"""


class PostgresGraves:
    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox

    async def droppable(self) -> list[tuple[str, str]]:
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                "SELECT id, engine FROM knowledge_base_indexes WHERE drop_after <= now() ORDER BY drop_after LIMIT 20"
            )
            return [(row[0], row[1]) for row in await cursor.fetchall()]

    async def condemn(self, index_id: str) -> None:
        async with self._database.connection() as connection:
            await connection.execute(
                "UPDATE knowledge_base_indexes SET state = 'dropping' WHERE id = %s AND drop_after <= now()",
                (index_id,),
            )

    async def dropped(self, index_id: str) -> None:
        async with self._outbox.transaction() as transaction:
            # Deleted with their index, in no order of their own.
            await transaction.connection.execute(
                "SELECT FROM ingestion_items WHERE index_id = %s ORDER BY file_id FOR UPDATE", (index_id,)
            )
            await transaction.connection.execute(
                "DELETE FROM knowledge_base_indexes WHERE id = %s AND state = 'dropping'", (index_id,)
            )
            await _bury(transaction)

    async def bury(self) -> None:
        async with self._outbox.transaction() as transaction:
            await _bury(transaction)


async def _bury(transaction: Transaction) -> None:
    cursor = await transaction.connection.execute(_BURY)
    for knowledge_base_id, *context in await cursor.fetchall():
        event = KnowledgeBaseDeleted(knowledge_base_id=knowledge_base_id)
        transaction.emit(event, subject=knowledge_base_id, context=MessageContext(*context))
