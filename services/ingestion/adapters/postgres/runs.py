"""Stores ingestion runs in PostgreSQL."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from libs.contracts.errors import ErrorKind
from libs.contracts.resources.knowledge_bases import IngestionProgress, KnowledgeBaseStatus
from libs.eventing import Outbox
from libs.persistence import Connection, Database, fetch_value
from services.ingestion.adapters import metrics
from services.ingestion.adapters.postgres.knowledge_base_writer import set_status
from services.ingestion.adapters.postgres.knowledge_bases import settings_of
from services.ingestion.adapters.postgres.run_events import count_items, publish_ending, publish_failure
from services.ingestion.domain.knowledge_bases import Progress
from services.ingestion.domain.runs import ClaimedRun, RunKey, RunRef, Token

_log: Final = structlog.get_logger(__name__)
_CLAIM: Final = """
    UPDATE ingestion_runs r
    SET token = %(token)s, lease_until = now() + %(seconds)s * interval '1 second', holder = %(holder)s,
        attempts = attempts + 1
    FROM knowledge_base_indexes i
    WHERE r.id = %(id)s AND r.state IN ('planning', 'finishing') AND i.id = r.index_id
      AND (r.lease_until IS NULL OR r.lease_until < now())
    RETURNING r.id, r.knowledge_base_id, r.company_id, r.index_id, r.correlation_id, r.causation_id, r.traceparent,
              r.state, i.settings, r.attempts
"""
# The files stay locked until their items are committed, so that a deletion finds the items.
_NEXT: Final = """
    SELECT f.id FROM files f
    WHERE f.company_id = %(company)s AND f.deleted_at IS NULL AND f.id > %(after)s
      AND (f.id = ANY (%(files)s) OR EXISTS (
          SELECT FROM collection_files cf WHERE cf.file_id = f.id AND cf.collection_id = ANY (%(collections)s)))
    ORDER BY f.id LIMIT %(limit)s FOR SHARE OF f
"""
# Ingested items stay unchanged. Running items stay with their worker and count toward the new run.
_ITEMS: Final = """
    INSERT INTO ingestion_items AS d (index_id, file_id, run_id)
    SELECT %(index)s, unnest(%(ids)s::text[]), %(run)s
    ON CONFLICT (index_id, file_id) DO UPDATE
    SET run_id = EXCLUDED.run_id, changed_at = now(), retry_at = NULL, sent_at = NULL,
        state = CASE WHEN d.state = 'running' THEN d.state ELSE 'pending' END,
        attempts = CASE WHEN d.state = 'running' THEN d.attempts ELSE 0 END, error = NULL, failing_since = NULL
    WHERE d.state <> 'ingested'
"""
# OFFSET 0 prevents a full cross join, which PostgreSQL plans before the tables are analyzed.
_TAKEN_OUT: Final = """
    WITH unwanted AS MATERIALIZED (
        SELECT d.file_id FROM ingestion_items d
        WHERE d.index_id = %(index)s AND d.state <> 'removing' AND NOT EXISTS (
            SELECT FROM files f WHERE f.id = d.file_id AND f.deleted_at IS NULL AND (
                f.id = ANY (%(files)s) OR EXISTS (
                    SELECT FROM collection_files cf
                    WHERE cf.file_id = f.id AND cf.collection_id = ANY (%(collections)s)))
            OFFSET 0)
        ORDER BY d.file_id FOR UPDATE OF d)
    UPDATE ingestion_items d
    SET state = 'removing', phase = '', run_id = %(run)s, attempts = 0, sent_at = NULL, retry_at = NULL, error = NULL,
        changed_at = now()
    FROM unwanted WHERE (d.index_id, d.file_id) = (%(index)s, unwanted.file_id) AND d.state <> 'removing'
"""
_UNFINISHED: Final = """
    SELECT EXISTS (SELECT FROM ingestion_items WHERE index_id = %s AND state IN ('pending', 'running', 'removing'))
"""
# A file in the old index must also be in the new one, unless it was removed.
_WORSE: Final = """
    SELECT EXISTS (
        SELECT FROM knowledge_base_indexes i JOIN ingestion_items old ON old.index_id = i.id
        JOIN ingestion_items new ON new.index_id = %(index)s AND new.file_id = old.file_id
        WHERE i.knowledge_base_id = %(kb)s AND i.state = 'live' AND i.id <> %(index)s
          AND old.state = 'ingested' AND new.state = 'failed')
"""
_SWITCH: Final = """
    WITH retired AS (
        UPDATE knowledge_base_indexes
        SET state = 'retired', drop_after = now() + %(grace)s * interval '1 second'
        WHERE knowledge_base_id = %(kb)s AND state = 'live' AND id <> %(index)s
    )
    UPDATE knowledge_bases SET index_id = %(index)s WHERE id = %(kb)s AND index_id IS DISTINCT FROM %(index)s
"""


@dataclass
class PostgresRuns:
    """Ingestion runs. Each method has its own transaction.

    A replaced index is kept for ``grace_seconds``, so that running searches can finish.
    """

    database: Database
    outbox: Outbox
    holder: Callable[[], int | None]
    lease_seconds: float
    grace_seconds: float

    async def claim(self, key: RunKey, token: Token) -> ClaimedRun | None:
        lease = {"token": token, "seconds": self.lease_seconds, "holder": self.holder()}
        rows = await self.database.execute(_CLAIM, {"id": key.run_id, **lease})
        if not rows:
            return None
        [[*ref, state, settings, attempts]] = rows
        return ClaimedRun(RunRef(*ref), state, token, settings_of(settings), attempts)

    async def plan(self, run: ClaimedRun, limit: int) -> bool:
        """Creates items for the next files. Returns False once there's nothing left to plan."""
        async with self.database.transaction() as connection:
            # Lock the knowledge base before the run, as everywhere else.
            base = await _locked_base(connection, run.run)
            planned_to = await _locked(connection, run, "planning")
            if base is None or planned_to is None:
                return False
            collections, files, status = base
            if status != "running":
                await set_status(connection, run.run.knowledge_base_id, "running")
            wanted = {"collections": collections, "files": files, "index": run.run.index_id, "run": run.run.id}
            found = await connection.execute(
                _NEXT, {**wanted, "company": run.run.company_id, "after": planned_to, "limit": limit}
            )
            ids = [row[0] for row in await found.fetchall()]
            await connection.execute(_ITEMS, {**wanted, "ids": ids})
            # After a full batch, there may be more files. Files to remove are only looked up once, at the end.
            if len(ids) == limit:
                await connection.execute(
                    "UPDATE ingestion_runs SET planned_to = %s, changed_at = now() WHERE id = %s", (ids[-1], run.run.id)
                )
                return True
            await connection.execute(_TAKEN_OUT, wanted)
            await _release(connection, run, "running")
            return False

    async def release(self, run: ClaimedRun, *, seconds: float, counts: bool) -> None:
        """Queues the run again after ``seconds``. The claim only counts as an attempt if ``counts`` is set."""
        await self.database.execute(
            """UPDATE ingestion_runs SET token = NULL, lease_until = NULL, sent_at = NULL, attempts = attempts - %s,
                   retry_at = now() + %s * interval '1 second' WHERE id = %s AND token = %s""",
            (0 if counts else 1, seconds, run.run.id, run.token),
        )

    async def fail(self, run: RunRef, reason: str, token: Token | None = None, *, cause: str) -> bool:
        """Marks an active run as failed. Returns False if the run has already ended or the claim was lost.

        ``token`` is the claim to check, if any. ``cause`` describes the error, as returned by ``cause_of``.
        """
        async with self.outbox.transaction(run.context) as transaction:
            if await _locked_base(transaction.connection, run) is None:
                return False
            failed = await transaction.connection.execute(
                """UPDATE ingestion_runs SET state = 'failed', failure = %(reason)s, token = NULL, lease_until = NULL,
                       retry_at = NULL, changed_at = now()
                   WHERE id = %(id)s AND state IN ('planning', 'running', 'finishing')
                     AND token IS NOT DISTINCT FROM coalesce(%(token)s, token)""",
                {"reason": reason, "id": run.id, "token": token},
            )
            if failed.rowcount == 0:
                return False
            await set_status(transaction.connection, run.knowledge_base_id, "failed")
            await publish_failure(transaction, run, ErrorKind.INTERNAL, reason, cause)
        metrics.RUNS.labels("failed").inc()
        return True

    async def complete(self, run_id: str) -> bool:
        """Moves the run to finishing if all of its items are finished. Returns whether the run was moved."""
        async with self.database.transaction() as connection:
            statement = "SELECT index_id FROM ingestion_runs WHERE id = %s AND state = 'running' FOR UPDATE"
            index_id = await fetch_value(connection, statement, (run_id,))
            # Check in a second statement: after waiting for the lock, the first one would miss recently committed
            # items.
            if index_id is None or await _unfinished(connection, index_id):
                return False
            await connection.execute(
                """UPDATE ingestion_runs SET state = 'finishing', attempts = 0, sent_at = NULL, retry_at = NULL,
                       changed_at = now() WHERE id = %s""",
                (run_id,),
            )
            return True

    async def end(self, run: ClaimedRun) -> None:
        """Ends a finishing run and emits its outcome, unless another worker has claimed the run or there's more to do.

        Searches switch to the run's index, unless the run couldn't ingest files that are searchable now.
        """
        ref = run.run
        async with self.outbox.transaction(ref.context) as transaction:
            connection = transaction.connection
            base = await _locked_base(connection, ref)
            if base is None or await _locked(connection, run, "finishing") is None:
                return
            if await _unfinished(connection, ref.index_id):
                await _release(connection, run, "running")
                return
            progress = await count_items(connection, ref.index_id)
            worse = await fetch_value(connection, _WORSE, {"kb": ref.knowledge_base_id, "index": ref.index_id})
            switched = not worse and await self._switch(connection, ref)
            status: KnowledgeBaseStatus = "failed" if progress.failed else "completed"
            await set_status(connection, ref.knowledge_base_id, status)
            await _release(connection, run, status)
            publish_ending(transaction, ref, progress)
        metrics.RUNS.labels(status).inc()
        _log.info(
            "ingestion.ended",
            run_id=ref.id,
            knowledge_base_id=ref.knowledge_base_id,
            completed=status == "completed",
            switched=switched,
            ingested=progress.ingested,
            failed=progress.failed,
            chunks=progress.processed_chunks,
        )

    async def publish_progress(self, run: RunRef) -> Progress | None:
        """Emits the run's progress at most once a second. Returns None if nothing was emitted."""
        async with self.outbox.transaction(run.context) as transaction:
            state = await fetch_value(
                transaction.connection,
                """UPDATE ingestion_runs SET told_at = now()
                   WHERE id = %s AND state IN ('planning', 'running')
                     AND (told_at IS NULL OR told_at < now() - interval '1 second') RETURNING state""",
                (run.id,),
            )
            if state is None:
                return None
            progress = await count_items(transaction.connection, run.index_id)
            event = IngestionProgress(
                knowledge_base_id=run.knowledge_base_id, ingestion_id=run.id, progress=progress.percent(ended=False),
                finished_datasources=progress.finished, total_datasources=progress.total,
                metadata=progress.metadata(state),
            )  # fmt: skip
            transaction.emit(event, subject=run.knowledge_base_id)
            return progress

    async def _switch(self, connection: Connection, run: RunRef) -> bool:
        parameters = {"kb": run.knowledge_base_id, "index": run.index_id, "grace": self.grace_seconds}
        switched = await connection.execute(_SWITCH, parameters)
        await connection.execute(
            "UPDATE knowledge_base_indexes SET state = 'live' WHERE id = %s AND state = 'building'", (run.index_id,)
        )
        return bool(switched.rowcount)


async def _locked_base(connection: Connection, run: RunRef) -> tuple[list[str], list[str], str] | None:
    cursor = await connection.execute(
        """SELECT collection_ids, file_ids, status FROM knowledge_bases
           WHERE id = %s AND deleting_at IS NULL FOR UPDATE""",
        (run.knowledge_base_id,),
    )
    row = await cursor.fetchone()
    return (row[0], row[1], row[2]) if row else None


async def _locked(connection: Connection, run: ClaimedRun, state: str) -> str | None:
    planned_to: str | None = await fetch_value(
        connection,
        """SELECT planned_to FROM ingestion_runs
           WHERE id = %(id)s AND token = %(token)s AND state = %(state)s FOR UPDATE""",
        {"id": run.run.id, "token": run.token, "state": state},
    )
    return planned_to


async def _release(connection: Connection, run: ClaimedRun, state: str) -> None:
    await connection.execute(
        """UPDATE ingestion_runs SET state = %s, token = NULL, lease_until = NULL, retry_at = NULL, changed_at = now()
           WHERE id = %s""",
        (state, run.run.id),
    )


async def _unfinished(connection: Connection, index_id: str) -> bool:
    return bool(await fetch_value(connection, _UNFINISHED, (index_id,)))
