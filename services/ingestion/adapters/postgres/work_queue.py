"""The queue of unfinished work."""

from collections.abc import Sequence
from typing import Final

import structlog

from libs.contracts.errors import StoreUnavailable
from libs.fairness import Capacity
from libs.persistence import Database, fetch_value
from services.ingestion.adapters.metrics import WAITING
from services.ingestion.domain.files import TextKey, UnparsedText
from services.ingestion.domain.runs import Due, ItemKey, RunKey

# This check runs several times a second and rarely finds work, so it's a single statement without a transaction.
_IS_ANY_DUE: Final = """
    SELECT EXISTS (SELECT FROM ingestion_runs WHERE sent_at IS NULL AND state IN ('planning', 'finishing'))
        OR EXISTS (SELECT FROM ingestion_items WHERE sent_at IS NULL AND state IN ('pending', 'removing'))
"""
_DUE_RUNS: Final = """
    UPDATE ingestion_runs r SET sent_at = now() FROM (
        SELECT id FROM ingestion_runs
        WHERE sent_at IS NULL AND state IN ('planning', 'finishing') AND (retry_at IS NULL OR retry_at <= now())
        ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED) due
    WHERE r.id = due.id RETURNING r.id, r.company_id, r.correlation_id
"""
# One lookup per search index finds the indexes with due items, however many items are waiting. Companies take turns,
# and so do the indexes of a company. A company with many sent items waits until most of them are claimed, because
# other companies' messages would otherwise queue behind its own in the topic.
_DUE_ITEMS: Final = """
    WITH RECURSIVE indexes (id) AS (
        (SELECT index_id FROM ingestion_items WHERE sent_at IS NULL AND state IN ('pending', 'removing')
         ORDER BY index_id LIMIT 1)
        UNION ALL
        SELECT (SELECT d.index_id FROM ingestion_items d
                WHERE d.sent_at IS NULL AND d.state IN ('pending', 'removing') AND d.index_id > i.id
                ORDER BY d.index_id LIMIT 1)
        FROM indexes i WHERE i.id IS NOT NULL
    ), on_the_way AS (
        SELECT k.company_id, count(*) AS items FROM ingestion_items d
        JOIN knowledge_base_indexes i ON i.id = d.index_id JOIN knowledge_bases k ON k.id = i.knowledge_base_id
        WHERE d.sent_at IS NOT NULL AND d.state IN ('pending', 'removing') AND i.state <> 'dropping'
        GROUP BY k.company_id
    ), waiting AS (
        SELECT k.company_id, i.id, row_number() OVER (PARTITION BY k.company_id ORDER BY random()) AS place
        FROM indexes JOIN knowledge_base_indexes i USING (id) JOIN knowledge_bases k ON k.id = i.knowledge_base_id
        WHERE i.state <> 'dropping'
    ), chosen AS (
        SELECT d.index_id, d.file_id,
               row_number() OVER (PARTITION BY w.company_id ORDER BY d.place, d.index_id) AS turn
        FROM waiting w LEFT JOIN on_the_way o USING (company_id) CROSS JOIN LATERAL (
            SELECT index_id, file_id, row_number() OVER (ORDER BY file_id) AS place FROM ingestion_items
            WHERE index_id = w.id AND sent_at IS NULL AND state IN ('pending', 'removing')
              AND (retry_at IS NULL OR retry_at <= now())
            ORDER BY file_id LIMIT %(limit)s) d
        WHERE w.place <= %(indexes)s AND coalesce(o.items, 0) <= %(most)s
        ORDER BY turn LIMIT %(limit)s
    ), due AS (
        SELECT d.index_id, d.file_id FROM ingestion_items d JOIN chosen USING (index_id, file_id)
        WHERE d.sent_at IS NULL AND d.state IN ('pending', 'removing')
        ORDER BY d.index_id, d.file_id FOR UPDATE OF d SKIP LOCKED
    ), sent AS (
        UPDATE ingestion_items d SET sent_at = now() FROM due
        WHERE (d.index_id, d.file_id) = (due.index_id, due.file_id) RETURNING d.index_id, d.file_id, d.run_id
    )
    SELECT sent.index_id, sent.file_id, r.company_id, r.correlation_id
    FROM sent JOIN ingestion_runs r ON r.id = sent.run_id
"""
# Requeues items with an expired lease. Each claim counts as an attempt, so a file that kills workers eventually fails.
_LOST_ITEMS: Final = """
    UPDATE ingestion_items d SET state = 'pending', phase = '', token = NULL, lease_until = NULL, sent_at = NULL FROM (
        SELECT index_id, file_id FROM ingestion_items
        WHERE state = 'running' AND lease_until < now() FOR UPDATE SKIP LOCKED) lost
    WHERE (d.index_id, d.file_id) = (lost.index_id, lost.file_id)
"""
# Unclaimed items may still be waiting in the topic or in a worker. While there's progress, only a few at a time are
# sent again.
_UNHEARD_ITEMS: Final = """
    UPDATE ingestion_items d SET sent_at = NULL FROM (
        SELECT d.index_id, d.file_id FROM ingestion_items d
        WHERE d.state IN ('pending', 'removing') AND d.sent_at < now() - %(seconds)s * interval '1 second'
          AND (d.lease_until IS NULL OR d.lease_until < now())
        ORDER BY d.sent_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED) unheard
    WHERE (d.index_id, d.file_id) = (unheard.index_id, unheard.file_id)
"""
_UNHEARD_RUNS: Final = """
    UPDATE ingestion_runs r SET sent_at = NULL, token = NULL, lease_until = NULL FROM (
        SELECT id FROM ingestion_runs
        WHERE state IN ('planning', 'finishing') AND sent_at < now() - %(seconds)s * interval '1 second'
          AND (lease_until IS NULL OR lease_until < now()) FOR UPDATE SKIP LOCKED) unheard
    WHERE r.id = unheard.id
"""
_DONE_RUNS: Final = """
    SELECT r.id FROM ingestion_runs r WHERE r.state = 'running' AND NOT EXISTS (
        SELECT FROM ingestion_items d WHERE d.index_id = r.index_id AND d.state IN ('pending', 'running', 'removing'))
"""
# The newest changes are at the ends of two indexes. PostgreSQL might use a full scan to search for any recent change.
_MOVED: Final = """
    SELECT coalesce(
        greatest((SELECT max(changed_at) FROM ingestion_items), (SELECT max(changed_at) FROM ingestion_runs))
        > now() - %(seconds)s * interval '1 second', false)
"""
_WAITING: Final = """
    SELECT EXISTS (
        SELECT FROM ingestion_items d JOIN knowledge_base_indexes i ON i.id = d.index_id
        WHERE d.state IN ('pending', 'running', 'removing') AND i.state <> 'dropping'
          AND (d.lease_until IS NULL OR d.lease_until < now()) AND (d.retry_at IS NULL OR d.retry_at < now()))
"""
_UNSENT_RUNS: Final = """
    UPDATE ingestion_runs r SET sent_at = NULL FROM (
        SELECT id FROM ingestion_runs WHERE id = ANY (%s) ORDER BY id FOR UPDATE) unsent
    WHERE r.id = unsent.id
"""
_UNSENT_ITEMS: Final = """
    UPDATE ingestion_items d SET sent_at = NULL FROM (
        SELECT d.index_id, d.file_id FROM ingestion_items d
        JOIN unnest(%s::text[], %s::text[]) AS w (index_id, file_id) USING (index_id, file_id)
        ORDER BY d.index_id, d.file_id FOR UPDATE OF d) unsent
    WHERE (d.index_id, d.file_id) = (unsent.index_id, unsent.file_id)
"""
_UNPARSED: Final = """
    WITH RECURSIVE companies (id) AS (
        (SELECT company_id FROM texts WHERE state IN ('pending', 'running') ORDER BY company_id LIMIT 1)
        UNION ALL
        SELECT (SELECT t.company_id FROM texts t
                WHERE t.state IN ('pending', 'running') AND t.company_id > c.id ORDER BY t.company_id LIMIT 1)
        FROM companies c WHERE c.id IS NOT NULL
    ), busy AS (
        SELECT * FROM unnest(%(companies)s::text[], %(jobs)s::integer[]) AS b (company_id, jobs)
    ), waiting AS (
        SELECT t.*, coalesce(b.jobs, 0) + row_number() OVER (PARTITION BY c.id) AS turn
        FROM companies c LEFT JOIN busy b ON b.company_id = c.id CROSS JOIN LATERAL (
            SELECT t.blob_id, t.content_type, f.name, t.company_id, t.attempts FROM texts t CROSS JOIN LATERAL (
                SELECT f.name FROM files f JOIN collection_files cf ON cf.file_id = f.id
                WHERE f.blob_id = t.blob_id AND f.content_type = t.content_type LIMIT 1) f
            WHERE t.company_id = c.id AND t.state IN ('pending', 'running')
              AND (t.state = 'pending' OR t.lease_until < now())
            LIMIT %(each)s) t
    )
    SELECT blob_id, content_type, name, company_id, attempts FROM waiting
    WHERE turn <= %(each)s ORDER BY turn LIMIT %(free)s
"""
MAX_IN_FLIGHT: Final = 500
"""The maximum number of a company's items that are sent but not yet claimed."""
_INDEXES: Final = 50
_MANY: Final = 5000
_FEW: Final = 500


class PostgresWorkQueue:
    """Unfinished work to be sent to workers. Each method has its own transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take_due(self, limit: int) -> list[Due]:
        """Returns up to ``limit`` due runs and up to ``limit`` due items, and marks them as sent."""
        if not await self._database.value(_IS_ANY_DUE):
            return []
        async with self._database.transaction() as connection:
            runs = await connection.execute(_DUE_RUNS, {"limit": limit})
            found = [Due(RunKey(row[0]), row[1], row[2]) for row in await runs.fetchall()]
            items = await connection.execute(_DUE_ITEMS, {"limit": limit, "most": MAX_IN_FLIGHT, "indexes": _INDEXES})
            return found + [Due(ItemKey(row[0], row[1]), row[2], row[3]) for row in await items.fetchall()]

    async def requeue(self, work: Sequence[Due]) -> None:
        """Marks work as unsent again."""
        items = [due.key for due in work if isinstance(due.key, ItemKey)]
        runs = [due.key.run_id for due in work if isinstance(due.key, RunKey)]
        async with self._database.transaction() as connection:
            await connection.execute(_UNSENT_RUNS, (runs,))
            await connection.execute(_UNSENT_ITEMS, ([key.index_id for key in items], [key.file_id for key in items]))

    async def reconcile(self, seconds: float) -> int:
        """Requeues work whose lease has expired, or that nobody has claimed for ``seconds``.

        Returns the number of requeued items and runs.
        """
        age = {"seconds": seconds}
        async with self._database.transaction() as connection:
            limit = _FEW if await fetch_value(connection, _MOVED, age) else _MANY
            changed = [
                (await connection.execute(statement, {**age, "limit": limit})).rowcount
                for statement in (_LOST_ITEMS, _UNHEARD_ITEMS, _UNHEARD_RUNS)
            ]
            return sum(changed)

    async def finished_runs(self) -> list[str]:
        """Returns the IDs of running runs whose items are all finished."""
        return [row[0] for row in await self._database.execute(_DONE_RUNS)]

    async def stuck(self, seconds: float) -> bool:
        """Returns whether work without a lease is waiting, although nothing has changed for ``seconds``."""
        moved = await self._database.value(_MOVED, {"seconds": seconds})
        return not moved and bool(await self._database.value(_WAITING))

    async def unparsed(self, capacity: Capacity) -> list[UnparsedText]:
        """Returns unclaimed texts of files in collections, from each company in turn."""
        found = await self._database.execute(_UNPARSED, capacity.parameters())
        return [UnparsedText(TextKey(row[0], row[1]), *row[2:]) for row in found]


_log = structlog.get_logger(__name__)
# Runs count, because a run without a worker has no items yet. Texts don't, because without parsing ahead, they can wait
# for a long time.
BACKLOG: Final = """
    SELECT (SELECT count(*) FROM ingestion_items WHERE state IN ('pending', 'running', 'removing'))
    + (SELECT count(*) FROM ingestion_runs WHERE state IN ('planning', 'running', 'finishing'))
    + (SELECT count(*) FROM artifact_documents WHERE state = 'pending' OR (state = 'deleted' AND index_id IS NOT NULL))
"""


async def count_backlog(database: Database) -> None:
    """Updates the gauge of waiting work, except during a database outage."""
    try:
        WAITING.set(await database.value(BACKLOG))
    except StoreUnavailable as problem:
        _log.debug("backlog.not_counted", problem=str(problem).strip())
