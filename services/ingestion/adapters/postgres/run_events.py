"""Computes a run's progress, and emits its outcome event."""

from typing import Final, get_args

from libs.contracts.errors import ErrorInfo, ErrorKind
from libs.contracts.resources.knowledge_bases import IngestionCompleted, IngestionFailed, Phase
from libs.eventing import Transaction
from libs.persistence import Connection
from services.ingestion.domain.knowledge_bases import Progress
from services.ingestion.domain.runs import RunRef

_COUNTS: Final = """
    SELECT count(*), count(*) FILTER (WHERE state = 'ingested'), count(*) FILTER (WHERE state = 'failed'),
           coalesce(sum(chunks), 0), coalesce(sum(chunks) FILTER (WHERE state = 'ingested'), 0),
           count(*) FILTER (WHERE phase = 'parsing'), count(*) FILTER (WHERE phase = 'chunking'),
           count(*) FILTER (WHERE phase = 'embedding'), count(*) FILTER (WHERE phase = 'indexing')
    FROM ingestion_items WHERE index_id = %s AND state <> 'removing'
"""


async def count_items(connection: Connection, index_id: str) -> Progress:
    [row] = await (await connection.execute(_COUNTS, (index_id,))).fetchall()
    total, ingested, failed, total_chunks, processed_chunks, *working = row
    phases = {phase: count for phase, count in zip(get_args(Phase)[1:], working, strict=True) if count}
    return Progress(total, ingested, failed, total_chunks, processed_chunks, phases)


def publish_ending(transaction: Transaction, run: RunRef, progress: Progress) -> None:
    """Emits the outcome event of a finished run."""
    if progress.failed:
        message = f"{progress.failed} of {progress.total} files couldn't be ingested."
        _publish_failure(transaction, run, progress, ErrorInfo(type=ErrorKind.VALIDATION, message=message))
        return
    completed = IngestionCompleted(
        knowledge_base_id=run.knowledge_base_id, ingestion_id=run.id, datasource_count=progress.ingested,
        chunk_count=progress.processed_chunks,
    )  # fmt: skip
    transaction.emit(completed, subject=run.knowledge_base_id, context=run.context)


async def publish_failure(
    transaction: Transaction, run: RunRef, kind: ErrorKind, message: str, cause: str | None = None
) -> None:
    """Emits the failure event of a run that won't finish."""
    progress = await count_items(transaction.connection, run.index_id)
    _publish_failure(transaction, run, progress, ErrorInfo(type=kind, message=message), cause)


def _publish_failure(
    transaction: Transaction, run: RunRef, progress: Progress, error: ErrorInfo, cause: str | None = None
) -> None:
    failed = IngestionFailed(
        knowledge_base_id=run.knowledge_base_id, ingestion_id=run.id, datasource_count=progress.ingested,
        failed_count=progress.failed, error=error,
    )  # fmt: skip
    transaction.emit(failed, subject=run.knowledge_base_id, context=run.context, cause=cause)
