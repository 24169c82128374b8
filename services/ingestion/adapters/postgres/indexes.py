"""Lists the indexes of knowledge bases: those that should exist, and those pending deletion."""

from typing import Final

from libs.contracts.messages import MessageContext
from libs.contracts.resources.knowledge_bases import KnowledgeBaseDeleted
from libs.eventing import Outbox, Transaction
from libs.persistence import Database
from services.ingestion.domain.indexes import Content, KnownIndex

# An index under construction should exist once its first item does. A new index doesn't count as settled, so that a
# persistent miscount can't replace it again and again.
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


class PostgresIndexCatalog:
    """Reads which knowledge base indexes should exist."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def known(self) -> list[KnownIndex]:
        return [KnownIndex(*row) for row in await self._database.execute(_KNOWN)]

    async def content(self, index_id: str) -> Content:
        [row] = await self._database.execute(_CONTENT, (index_id,))
        return Content(*row)


_FINALIZE: Final = """
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


class PostgresIndexDeletion:
    """Tracks the indexes that are pending deletion."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox

    async def droppable(self) -> list[tuple[str, str]]:
        """Returns the IDs and engines of indexes whose grace period has ended."""
        cursor = await self._database.execute(
            "SELECT id, engine FROM knowledge_base_indexes WHERE drop_after <= now() ORDER BY drop_after LIMIT 20"
        )
        return [(row[0], row[1]) for row in cursor]

    async def mark_for_deletion(self, index_id: str) -> None:
        """Blocks further writes to the index, and moves it behind all other pending deletions."""
        await self._database.execute(
            """UPDATE knowledge_base_indexes SET state = 'dropping', drop_after = now()
               WHERE id = %s AND drop_after <= now()""",
            (index_id,),
        )

    async def dropped(self, index_id: str) -> None:
        """Records that the engine has dropped the index, which may complete the knowledge base's deletion."""
        async with self._outbox.transaction() as transaction:
            # A cascade from the index would lock the items in arbitrary order.
            await transaction.connection.execute(
                "SELECT FROM ingestion_items WHERE index_id = %s ORDER BY file_id FOR UPDATE", (index_id,)
            )
            await transaction.connection.execute(
                "DELETE FROM knowledge_base_indexes WHERE id = %s AND state = 'dropping'", (index_id,)
            )
            await _finalize(transaction)

    async def finalize_deletion(self) -> None:
        """Completes the deletion of knowledge bases that have no indexes left, and emits their events."""
        async with self._outbox.transaction() as transaction:
            await _finalize(transaction)


async def _finalize(transaction: Transaction) -> None:
    cursor = await transaction.connection.execute(_FINALIZE)
    for knowledge_base_id, *context in await cursor.fetchall():
        event = KnowledgeBaseDeleted(knowledge_base_id=knowledge_base_id)
        transaction.emit(event, subject=knowledge_base_id, context=MessageContext(*context))
