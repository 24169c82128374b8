"""Stores work items in PostgreSQL, with their lease, state and result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg.rows import TupleRow
from psycopg.types.json import Json

from libs.contracts.resources.knowledge_bases import DatasourceError, DatasourceFailed
from libs.eventing import Outbox
from libs.persistence import Database
from services.ingestion.adapters import metrics
from services.ingestion.adapters.postgres.knowledge_bases import settings_of
from services.ingestion.domain.files import TextKey
from services.ingestion.domain.runs import ClaimedItem, ItemKey, RunRef, Token

MOST_ATTEMPTS: Final = 5
_LONGEST_FAILING: Final = "15 minutes"
_KEYS: Final = "unnest(%(indexes)s::text[], %(files)s::text[], %(chunks)s::integer[]) AS w (index_id, file_id, chunks)"
# Every change of several items locks them in key order, which prevents deadlocks.
_HELD: Final = f"""
    WITH held AS MATERIALIZED (
        SELECT d.index_id, d.file_id, w.chunks FROM ingestion_items d JOIN {_KEYS} USING (index_id, file_id)
        WHERE d.token = %(token)s ORDER BY d.index_id, d.file_id FOR UPDATE OF d)
"""
# LATERAL looks up each key separately. Before the table is analyzed, a join would read all waiting items for every few
# keys.
_CLAIM: Final = f"""
    WITH free AS (
        SELECT o.index_id, o.file_id FROM {_KEYS} CROSS JOIN LATERAL (
            SELECT d.index_id, d.file_id FROM ingestion_items d
            WHERE (d.index_id, d.file_id) = (w.index_id, w.file_id) AND d.state IN ('pending', 'running', 'removing')
              AND (d.lease_until IS NULL OR d.lease_until < now()) AND NOT EXISTS (
                  SELECT FROM knowledge_base_indexes i WHERE i.id = d.index_id AND i.state = 'dropping')
            FOR UPDATE OF d SKIP LOCKED) o
    ), claimed AS (
        UPDATE ingestion_items d
        SET state = CASE d.state WHEN 'removing' THEN d.state ELSE 'running' END, phase = '', token = %(token)s,
            attempts = attempts + 1, lease_until = now() + %(seconds)s * interval '1 second', holder = %(holder)s,
            changed_at = now()
        FROM free WHERE (d.index_id, d.file_id) = (free.index_id, free.file_id) RETURNING d.*
    )
    SELECT c.index_id, c.file_id, c.state, c.attempts,
           c.attempts > %(most)s OR c.failing_since < now() - interval '{_LONGEST_FAILING}',
           r.id, r.knowledge_base_id, r.company_id, r.index_id, r.correlation_id, r.causation_id, r.traceparent,
           i.settings, f.name, f.content_type, f.sha256, f.size, f.blob_id
    FROM claimed c JOIN ingestion_runs r ON r.id = c.run_id JOIN knowledge_base_indexes i ON i.id = c.index_id
    JOIN files f ON f.id = c.file_id ORDER BY c.file_id, c.index_id
"""
# Deleting the file or dropping the index changes the row's state.
_INGESTED: Final = f"""
    {_HELD} UPDATE ingestion_items d
    SET state = 'ingested', phase = '', chunks = held.chunks, error = NULL, token = NULL, lease_until = NULL,
        failing_since = NULL, changed_at = now()
    FROM held
    WHERE (d.index_id, d.file_id) = (held.index_id, held.file_id) AND d.token = %(token)s AND d.state = 'running'
    RETURNING d.index_id, d.file_id
"""
_UNWANTED: Final = f"""
    SELECT w.index_id, w.file_id FROM {_KEYS} LEFT JOIN ingestion_items d USING (index_id, file_id)
    LEFT JOIN knowledge_base_indexes i ON i.id = w.index_id
    WHERE d.file_id IS NULL OR d.state = 'removing' OR i.state = 'dropping'
"""
_RELEASE: Final = """
    UPDATE ingestion_items d SET token = NULL, lease_until = NULL FROM (
        SELECT index_id, file_id FROM ingestion_items WHERE token = %s AND state = 'removing'
        ORDER BY index_id, file_id FOR UPDATE) released
    WHERE (d.index_id, d.file_id) = (released.index_id, released.file_id)
"""


@dataclass(frozen=True, slots=True)
class PostgresWorkItems:
    """Work items. Each method has its own transaction."""

    database: Database
    outbox: Outbox
    holder: Callable[[], int | None]
    lease_seconds: float

    async def claim(self, keys: Sequence[ItemKey], token: Token) -> list[ClaimedItem]:
        """Claims the items that are neither finished nor leased."""
        lease = {"token": token, "seconds": self.lease_seconds, "holder": self.holder()}
        parameters = {**_columns(keys), **lease, "most": MOST_ATTEMPTS}
        cursor = await self.database.execute(_CLAIM, parameters)
        return [_claimed(row, token) for row in cursor]

    async def renew(self, tokens: Sequence[Token]) -> None:
        """Renews the leases of these claims. Rows that another transaction is changing are skipped."""
        async with self.database.connection() as connection:
            for table in ("ingestion_items", "ingestion_runs"):
                # The next renewal covers locked rows.
                await connection.execute(
                    f"""UPDATE {table} SET lease_until = now() + %s * interval '1 second' WHERE ctid = ANY (ARRAY (
                            SELECT ctid FROM {table} WHERE token = ANY (%s) FOR UPDATE SKIP LOCKED))""",
                    (self.lease_seconds, list(tokens)),
                )

    async def advance(self, token: Token, chunks: Mapping[ItemKey, int], phase: str) -> None:
        """Records the items' phase and their number of chunks, which is 0 if unknown."""
        await self.database.execute(
            f"""{_HELD} UPDATE ingestion_items d SET phase = %(phase)s, chunks = held.chunks, changed_at = now()
                FROM held
                WHERE (d.index_id, d.file_id) = (held.index_id, held.file_id) AND d.token = %(token)s""",
            {**_columns(list(chunks), list(chunks.values())), "token": token, "phase": phase},
        )

    async def writable(self, index_ids: Sequence[str]) -> set[str]:
        """Returns the indexes that haven't been replaced or deleted."""
        cursor = await self.database.execute(
            "SELECT id FROM knowledge_base_indexes WHERE id = ANY (%s) AND state IN ('building', 'live')",
            (list(index_ids),),
        )
        return {row[0] for row in cursor}

    async def ingested(self, token: Token, chunks: Mapping[ItemKey, int]) -> set[ItemKey]:
        """Marks items as ingested. Returns the items whose file, knowledge base or index was deleted meanwhile.

        The caller must remove the returned items' chunks from the index.
        """
        keys = list(chunks)
        async with self.database.connection() as connection:
            cursor = await connection.execute(_INGESTED, {**_columns(keys, list(chunks.values())), "token": token})
            done = {ItemKey(*row) for row in await cursor.fetchall()}
            metrics.ITEMS.labels("ingested").inc(len(done))
            metrics.CHUNKS.inc(sum(chunks[key] for key in done))
            lost = [key for key in keys if key not in done]
            if not lost:
                return set()
            unwanted = await connection.execute(_UNWANTED, _columns(lost))
            return {ItemKey(*row) for row in await unwanted.fetchall()}

    async def removed(self, token: Token, keys: Sequence[ItemKey]) -> None:
        """Deletes items after their chunks were removed from the index."""
        async with self.database.transaction() as connection:
            gone = await connection.execute(
                f"""{_HELD} DELETE FROM ingestion_items d USING held
                    WHERE (d.index_id, d.file_id) = (held.index_id, held.file_id)
                      AND d.token = %(token)s AND d.state = 'removing'""",
                {**_columns(keys), "token": token},
            )
            # Items that were queued again during the removal may start now.
            await connection.execute(
                f"""{_HELD} UPDATE ingestion_items d SET token = NULL, lease_until = NULL, sent_at = NULL FROM held
                    WHERE (d.index_id, d.file_id) = (held.index_id, held.file_id) AND d.token = %(token)s""",
                {**_columns(keys), "token": token},
            )
        metrics.ITEMS.labels("removed").inc(gone.rowcount)

    async def failed(self, failures: Sequence[tuple[ClaimedItem, DatasourceError]]) -> None:
        """Marks items as failed, and emits an event for each."""
        codes: list[str] = []
        async with self.outbox.transaction() as transaction:
            # Lock in key order, as in every change of several items.
            for item, error in sorted(failures, key=lambda each: (each[0].key.index_id, each[0].key.file_id)):
                changed = await transaction.connection.execute(
                    """UPDATE ingestion_items SET state = 'failed', phase = '', chunks = 0, error = %s, token = NULL,
                           lease_until = NULL, failing_since = NULL, changed_at = now()
                       WHERE index_id = %s AND file_id = %s AND token = %s AND state = 'running'""",
                    (Json(error.model_dump()), item.key.index_id, item.key.file_id, item.token),
                )
                if changed.rowcount:
                    codes.append(error.code)
                    event = DatasourceFailed(
                        knowledge_base_id=item.run.knowledge_base_id, ingestion_id=item.run.id,
                        file_id=item.key.file_id, file_name=item.name, error=error,
                    )  # fmt: skip
                    transaction.emit(event, subject=item.run.knowledge_base_id, context=item.run.context)
            for token in {item.token for item, _ in failures}:
                await transaction.connection.execute(_RELEASE, (token,))
        for code in codes:
            metrics.ITEMS.labels("failed").inc()
            metrics.FAILURES.labels(code).inc()

    async def release(self, token: Token, keys: Sequence[ItemKey], *, seconds: float, counts: bool) -> None:
        """Queues items again after ``seconds``. The claim only counts as an attempt if ``counts`` is set."""
        await self.database.execute(
            f"""{_HELD} UPDATE ingestion_items d
                SET state = CASE d.state WHEN 'removing' THEN d.state ELSE 'pending' END, phase = '', token = NULL,
                    lease_until = NULL, sent_at = NULL, retry_at = now() + %(seconds)s * interval '1 second',
                    attempts = attempts - %(back)s, changed_at = now(),
                    failing_since = CASE WHEN %(seconds)s > 0 THEN coalesce(failing_since, now()) END
                FROM held
                WHERE (d.index_id, d.file_id) = (held.index_id, held.file_id) AND d.token = %(token)s""",
            {**_columns(keys), "token": token, "seconds": seconds, "back": 0 if counts else 1},
        )
        metrics.ITEMS.labels("put_off").inc(len(keys))


def _columns(keys: Sequence[ItemKey], chunks: Sequence[int] = ()) -> dict[str, Any]:
    return {
        "indexes": [key.index_id for key in keys],
        "files": [key.file_id for key in keys],
        "chunks": list(chunks),
    }


def _claimed(row: TupleRow, token: Token) -> ClaimedItem:
    index_id, file_id, state, attempts, exhausted = row[:5]
    settings, name, content_type, digest, size, blob_id = row[12:]
    wanted = state == "running" and blob_id is not None
    return ClaimedItem(
        key=ItemKey(index_id, file_id),
        token=token,
        run=RunRef(*row[5:12]),
        settings=settings_of(settings),
        name=name,
        content_type=content_type,
        sha256=digest,
        size=size,
        text=TextKey(blob_id, content_type) if wanted else None,
        attempts=attempts,
        exhausted=exhausted,
    )
