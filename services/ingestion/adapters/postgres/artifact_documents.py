"""Stores the indexing state of session documents in PostgreSQL."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from libs.contracts.errors import ErrorInfo
from libs.contracts.identifiers import new_id
from libs.contracts.messages import Event, MessageContext
from libs.contracts.resources.artifacts import ArtifactIndexed, ArtifactIndexing, ArtifactIndexingFailed, ArtifactRecord
from libs.eventing import Outbox, Transaction
from libs.fairness import Capacity
from libs.persistence import Database
from services.ingestion.adapters import metrics
from services.ingestion.adapters.postgres.holders import no_holder
from services.ingestion.domain.artifacts import ArtifactJob, IndexRef

_OURS = "artifact_id = %(artifact)s AND token = %(token)s AND state = 'pending'"
# Companies take turns: every company's first document comes before any company's second document. Documents of lost
# indexes come last.
_CLAIM = """
    WITH RECURSIVE companies (id) AS (
        (SELECT company_id FROM artifact_documents WHERE state = 'pending' ORDER BY company_id LIMIT 1)
        UNION ALL
        SELECT (SELECT d.company_id FROM artifact_documents d
                WHERE d.state = 'pending' AND d.company_id > c.id ORDER BY d.company_id LIMIT 1)
        FROM companies c WHERE c.id IS NOT NULL
    ), busy AS (
        SELECT * FROM unnest(%(companies)s::text[], %(jobs)s::integer[]) AS b (company_id, jobs)
    ), waiting AS (
        SELECT d.artifact_id, d.lost, d.created_at, coalesce(b.jobs, 0) + d.place AS turn
        FROM companies c LEFT JOIN busy b ON b.company_id = c.id CROSS JOIN LATERAL (
            SELECT artifact_id, lost_at IS NOT NULL AS lost, created_at,
                   row_number() OVER (ORDER BY lost_at IS NOT NULL, created_at) AS place
            FROM artifact_documents
            WHERE state = 'pending' AND company_id = c.id AND (lease_until IS NULL OR lease_until < now())
            ORDER BY lost_at IS NOT NULL, created_at LIMIT %(each)s) d
    ), free AS (
        SELECT d.artifact_id FROM artifact_documents d JOIN waiting w USING (artifact_id)
        WHERE w.turn <= %(each)s AND d.state = 'pending' AND (d.lease_until IS NULL OR d.lease_until < now())
        ORDER BY w.lost, w.turn, w.created_at LIMIT %(free)s FOR UPDATE OF d SKIP LOCKED)
    UPDATE artifact_documents d
    SET token = %(token)s || '/' || d.artifact_id, lease_until = now() + %(seconds)s * interval '1 second',
        holder = %(holder)s, attempts = attempts + 1, changed_at = now()
    FROM free WHERE d.artifact_id = free.artifact_id
    RETURNING d.artifact_id, d.company_id, d.session_id, d.name, d.content_type, d.token, d.attempts AS attempt,
              d.correlation_id
"""
# The query jumps from one index to the next instead of reading all documents.
_IN_USE = """
    WITH RECURSIVE places AS (
        (SELECT engine, index_id FROM artifact_documents WHERE state = 'indexed' ORDER BY index_id LIMIT 1)
        UNION ALL
        SELECT further.engine, further.index_id FROM places CROSS JOIN LATERAL (
            SELECT d.engine, d.index_id FROM artifact_documents d
            WHERE d.state = 'indexed' AND d.index_id > places.index_id ORDER BY d.index_id LIMIT 1) further
    )
    SELECT engine, index_id FROM places
"""


class PostgresArtifactWriter:
    """Changes session documents in the caller's transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.connection

    async def add(self, artifact: ArtifactRecord, company_id: str, correlation_id: str, owner_id: str | None) -> None:
        """Queues a document, unless it's already known or deleted."""
        await self._connection.execute(
            """INSERT INTO artifact_documents
                   (artifact_id, company_id, session_id, name, content_type, correlation_id, owner_id)
               VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING""",
            (
                artifact.artifact_id,
                company_id,
                artifact.session_id,
                artifact.name,
                artifact.content_type,
                correlation_id,
                owner_id,
            ),
        )

    async def mark_deleted(self, artifact_id: str, session_id: str, company_id: str) -> None:
        """Marks a document as deleted, even if it's unknown."""
        await self._connection.execute(
            """INSERT INTO artifact_documents AS d
                   (artifact_id, company_id, session_id, name, content_type, correlation_id, state)
               VALUES (%s, %s, %s, '', '', '', 'deleted')
               ON CONFLICT (artifact_id) DO UPDATE SET state = 'deleted', name = '', changed_at = now()""",
            (artifact_id, company_id, session_id),
        )


class PostgresArtifactJobs:
    """The jobs that index session documents. Each method has its own transaction."""

    def __init__(self, database: Database, outbox: Outbox, holder: Callable[[], int | None] = no_holder) -> None:
        self._database = database
        self._outbox = outbox
        self._holder = holder

    async def claim(self, capacity: Capacity, seconds: float) -> list[ArtifactJob]:
        """Claims waiting documents, from each company in turn."""
        lease = {"token": new_id(), "seconds": seconds, "holder": self._holder()}
        claimed = await self._database.records(_CLAIM, {**capacity.parameters(), **lease})
        return [ArtifactJob(**row) for row in claimed]

    async def renew(self, tokens: Collection[str], seconds: float) -> None:
        await self._database.execute(
            """UPDATE artifact_documents SET lease_until = now() + %s * interval '1 second'
               WHERE artifact_id IN (
                   SELECT artifact_id FROM artifact_documents WHERE token = ANY (%s) FOR UPDATE SKIP LOCKED)""",
            (seconds, list(tokens)),
        )

    async def postpone(self, job: ArtifactJob, seconds: float, *, counts: bool) -> None:
        """Queues the document again after ``seconds``. The claim only counts as an attempt if ``counts`` is set."""
        await self._database.execute(
            f"""UPDATE artifact_documents
                SET lease_until = now() + %(seconds)s * interval '1 second', holder = NULL,
                    attempts = attempts - %(given_back)s
                WHERE {_OURS}""",
            {**_of(job), "seconds": seconds, "given_back": 0 if counts else 1},
        )

    async def report_progress(self, job: ArtifactJob, progress: int) -> None:
        """Emits an event with the progress in percent."""
        await self._change(job, "changed_at = now()", ArtifactIndexing(**_ids(job), progress=progress))

    async def record_index(self, job: ArtifactJob, index: IndexRef) -> bool:
        """Records the index that the chunks will be written to. Returns False if the document was deleted."""
        return await self._change(
            job, "engine = %(engine)s, index_id = %(index)s", engine=index.engine, index=index.index_id
        )

    async def in_use(self) -> list[IndexRef]:
        found = await self._database.execute(_IN_USE)
        return [IndexRef(row[0], row[1]) for row in found]

    async def requeue_lost(self, index: IndexRef) -> int:
        """Queues the documents of a lost index again, behind waiting documents. Returns the number of documents."""
        async with self._database.connection() as connection:
            changed = await connection.execute(
                """UPDATE artifact_documents
                   SET state = 'pending', lost_at = now(), attempts = 0, lease_until = NULL, changed_at = now()
                   WHERE state = 'indexed' AND artifact_id IN (
                       SELECT artifact_id FROM artifact_documents
                       WHERE state = 'indexed' AND index_id = %s AND engine = %s ORDER BY artifact_id FOR UPDATE)""",
                (index.index_id, index.engine),
            )
            return changed.rowcount

    async def indexed(self, job: ArtifactJob, *, characters: int, chunks: int) -> bool:
        """Marks a document as indexed. Returns False if the document was deleted."""
        event = ArtifactIndexed(**_ids(job), characters=characters, passages=chunks)
        return await self._ended(job, "indexed", event)

    async def failed(self, job: ArtifactJob, error: ErrorInfo) -> None:
        event = ArtifactIndexingFailed(**_ids(job), error=error)
        await self._ended(job, "failed", event)

    async def pending_removal(self, limit: int) -> list[tuple[str, IndexRef]]:
        """Returns deleted documents whose chunks may still be in an index."""
        # A worker that is still writing the document holds a lease.
        found = await self._database.execute(
            """SELECT artifact_id, engine, index_id FROM artifact_documents
               WHERE state = 'deleted' AND index_id IS NOT NULL
                 AND (lease_until IS NULL OR token IS NULL OR lease_until < now())
               ORDER BY changed_at LIMIT %s""",
            (limit,),
        )
        return [(row[0], IndexRef(row[1], row[2])) for row in found]

    async def removed(self, artifact_ids: Sequence[str]) -> None:
        """Records that these documents' chunks and texts have been removed."""
        await self._change_all(artifact_ids, "engine = NULL, index_id = NULL")

    async def postpone_removal(self, artifact_ids: Sequence[str]) -> None:
        """Moves these documents to the end of the queue for removal."""
        await self._change_all(artifact_ids, "changed_at = now()")

    async def _change_all(self, artifact_ids: Sequence[str], changes: str) -> None:
        if artifact_ids:
            await self._database.execute(
                f"""UPDATE artifact_documents SET {changes} WHERE artifact_id IN (
                        SELECT artifact_id FROM artifact_documents
                        WHERE artifact_id = ANY (%s) ORDER BY artifact_id FOR UPDATE)""",
                (list(artifact_ids),),
            )

    async def _ended(self, job: ArtifactJob, state: str, event: Event) -> bool:
        changes = f"state = '{state}', token = NULL, lost_at = NULL, changed_at = now()"
        changed = await self._change(job, changes, event)
        if changed:
            metrics.DOCUMENTS.labels(state).inc()
        return changed

    async def _change(self, job: ArtifactJob, changes: str, event: Event | None = None, **values: Any) -> bool:
        async with self._outbox.transaction() as transaction:
            changed = await transaction.connection.execute(
                f"UPDATE artifact_documents SET {changes} WHERE {_OURS} RETURNING correlation_id, owner_id".encode(),
                {**_of(job), **values},
            )
            row = await changed.fetchone()
            if row is not None and event is not None:
                context = MessageContext(job.company_id, row[0], owner_id=row[1])
                transaction.emit(event, subject=job.artifact_id, context=context)
        return row is not None


class PostgresArtifactLocator:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def locate(self, company_id: str, artifact_ids: Collection[str]) -> tuple[dict[str, IndexRef], bool]:
        """Returns the index of each indexed document of the company, and whether any of these indexes has been lost."""
        found = await self._database.execute(
            """SELECT artifact_id, engine, index_id, state <> 'indexed' FROM artifact_documents
               WHERE artifact_id = ANY (%s) AND company_id = %s
                 AND (state = 'indexed' OR state = 'pending' AND lost_at IS NOT NULL)""",
            (list(artifact_ids), company_id),
        )
        return {row[0]: IndexRef(row[1], row[2]) for row in found}, any(row[3] for row in found)


def _of(job: ArtifactJob) -> dict[str, Any]:
    return {"artifact": job.artifact_id, "token": job.token}


def _ids(job: ArtifactJob) -> dict[str, Any]:
    return {"artifact_id": job.artifact_id, "session_id": job.session_id}
