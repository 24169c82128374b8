"""Reads the tables of data files and stores summaries of them."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from libs import tracing
from libs.blobs import derived_key, original_key
from libs.contracts.errors import ErrorInfo, ErrorKind
from libs.contracts.messages import MessageContext
from libs.contracts.resources.artifacts import ArtifactFailed, ArtifactPreview, ArtifactProgress, ArtifactReady, Sheet
from libs.documents import DocumentUnreadable
from libs.eventing import Outbox
from libs.objects import ObjectMissing, ObjectStore, one_piece, read_all
from libs.persistence import LeasedWork, is_unreachable, retry_until_available
from services.artifacts.adapters.postgres.artifacts import PostgresArtifactWriter
from services.artifacts.adapters.postgres.table_jobs import PostgresTableJobs
from services.artifacts.adapters.tables.reader import TableProcesses
from services.artifacts.domain.artifacts import StoredArtifact, TableJob

_PROGRESS_AT_START: Final = 10
_MOST_ATTEMPTS: Final = 3
_POSTPONE_SECONDS: Final = 3.0
_MISSING_SECONDS: Final = 30.0
_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTables:
    """Reads the tables of waiting files, at most ``at_once`` files per company at a time."""

    jobs: PostgresTableJobs
    store: ObjectStore
    reader: TableProcesses
    outbox: Outbox
    at_once: int
    lease_seconds: float

    async def __call__(self) -> int:
        """Reads files until none are waiting. Returns the number of attempts."""
        return await LeasedWork(
            claim=lambda slots: self.jobs.claim(slots, self.lease_seconds),
            renew=lambda jobs: self.jobs.renew([job.lease for job in jobs], self.lease_seconds),
            process=self._read,
            company_of=lambda job: job.artifact.company_id,
            each=self.at_once,
            lease_seconds=self.lease_seconds,
        )()

    async def _read(self, job: TableJob) -> None:
        """Reads one file. Never raises an error, so that the other files are still read."""
        structlog.contextvars.bind_contextvars(correlation_id=job.correlation_id)
        with _span(job):
            record = await self._outcome(job)
            try:
                await retry_until_available(record)
            except Exception:
                # The lease expires, and the attempt counts.
                _log.exception("tables.not_recorded", artifact_id=job.artifact.id)

    async def _outcome(self, job: TableJob) -> Callable[[], Awaitable[None]]:
        """Reads the file's tables. Returns a function that records the outcome."""
        artifact_id, is_last = job.artifact.id, job.attempt >= _MOST_ATTEMPTS
        if job.attempt > _MOST_ATTEMPTS:
            return partial(self._fail, job, "The file couldn't be read: the reader process crashed on each attempt.")
        try:
            await self._record_begin(job)
            return partial(self._end, job, await self._sheets(job.artifact))
        except DocumentUnreadable as problem:
            return partial(self._fail, job, str(problem))
        except ObjectMissing:
            # The session has just been deleted, or the content is lost.
            if is_last:
                return partial(self._fail, job, "The file's content is missing from the object store.")
            _log.warning("tables.bytes_missing", artifact_id=artifact_id)
            return partial(self.jobs.postpone, job.lease, _MISSING_SECONDS, counts=True)
        except Exception as problem:
            # Lock contention counts as an attempt, because the work itself may cause a deadlock.
            counts = not is_unreachable(problem)
            if counts:
                _log.exception("tables.not_read", artifact_id=artifact_id)
            else:
                _log.warning("tables.postponed", artifact_id=artifact_id, problem=repr(problem))
            return partial(self.jobs.postpone, job.lease, _POSTPONE_SECONDS, counts=counts)

    async def _sheets(self, artifact: StoredArtifact) -> list[Sheet] | None:
        key = derived_key(artifact.blob_id, "tables", artifact.content_type)
        with suppress(ObjectMissing):
            # Reuse the summary of an earlier artifact with the same content.
            return ArtifactPreview.model_validate_json(await read_all(self.store, key)).sheets
        async with self.store.as_file(original_key(artifact.blob_id)) as path:
            sheets = await self.reader.read(path, artifact.content_type)
        if sheets is not None:
            await self.store.put(key, one_piece(ArtifactPreview(sheets=sheets).model_dump_json().encode()))
        return sheets

    async def _record_begin(self, job: TableJob) -> None:
        event = ArtifactProgress(**_ids(job.artifact), progress=_PROGRESS_AT_START)
        async with self.outbox.transaction(_message_context(job)) as transaction:
            await PostgresArtifactWriter(transaction).progress(event)

    async def _end(self, job: TableJob, sheets: list[Sheet] | None) -> None:
        metadata: dict[str, Any] = {}
        if sheets is not None:
            metadata = {"sheets": len(sheets), "rows": sum(sheet.row_count for sheet in sheets)}
        event = ArtifactReady(**_ids(job.artifact), metadata=metadata)
        async with self.outbox.transaction(_message_context(job)) as transaction:
            await PostgresArtifactWriter(transaction).ready(event, lease=job.lease)
        _log.info("artifact.processed", artifact_id=job.artifact.id, sheets=len(sheets or []))

    async def _fail(self, job: TableJob, message: str) -> None:
        event = ArtifactFailed(**_ids(job.artifact), error=ErrorInfo(type=ErrorKind.VALIDATION, message=message))
        async with self.outbox.transaction(_message_context(job)) as transaction:
            await PostgresArtifactWriter(transaction).failed(event, lease=job.lease)
        _log.info("artifact.failed", artifact_id=job.artifact.id)


def _span(job: TableJob) -> tracing.Span:
    artifact = job.artifact
    return tracing.span(
        "read table",
        tracing.Kind.CONSUMER,
        {"aes.artifact_id": artifact.id, "aes.company_id": artifact.company_id, "aes.attempt": job.attempt},
        correlation_id=job.correlation_id,
    )


def _message_context(job: TableJob) -> MessageContext:
    return MessageContext(job.artifact.company_id, job.correlation_id, owner_id=job.artifact.owner_id)


def _ids(artifact: StoredArtifact) -> dict[str, Any]:
    return {"artifact_id": artifact.id, "session_id": artifact.session_id}
