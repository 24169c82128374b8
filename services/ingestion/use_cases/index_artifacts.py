"""Indexes session documents, and removes deleted ones."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from libs import tracing
from libs.contracts.error_catalogue import FileErrorCode
from libs.contracts.errors import ErrorDetail, ErrorInfo, ErrorKind, NotFound
from libs.contracts.resources.knowledge_bases import ChunkingStrategy, EmbeddingConfig
from libs.objects import ObjectStore, one_piece
from libs.persistence import LeasedWork, is_outage, is_unreachable, retry_until_available
from services.ingestion.adapters.internal_api import HttpArtifactSource
from services.ingestion.adapters.postgres.artifact_documents import PostgresArtifactJobs
from services.ingestion.domain.artifacts import ArtifactBytesMissing, ArtifactJob, IndexRef, artifact_text_key
from services.ingestion.domain.embedding import Embedders
from services.ingestion.domain.engines import EngineConflict, Engines, IndexMissing
from services.ingestion.domain.parsing import DocumentReader, Unparsable
from services.ingestion.use_cases.document_indexer import indexed_chunks, write
from services.ingestion.use_cases.settings_resolver import SettingsResolver

_LEASE_SECONDS: Final = 20.0
_PUT_OFF_SECONDS: Final = 3.0
_MISSING_SECONDS: Final = 30.0
_MOST_ATTEMPTS: Final = 3
_REMOVED_AT_ONCE: Final = 200
_BEGUN, _PARSED = 10, 50
_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class IndexArtifacts:
    """Indexes session documents. A company's documents with the same settings share an index."""

    jobs: PostgresArtifactJobs
    source: HttpArtifactSource
    reader: DocumentReader
    store: ObjectStore
    embedders: Embedders
    engines: Engines
    resolver: SettingsResolver
    at_once: int

    async def __call__(self) -> int:
        """Indexes documents in parallel until none is waiting. Returns the number of documents claimed."""
        return await LeasedWork(
            claim=lambda capacity: self.jobs.claim(capacity, _LEASE_SECONDS),
            renew=lambda jobs: self.jobs.renew([job.token for job in jobs], _LEASE_SECONDS),
            process=self._process,
            company_of=lambda job: job.company_id,
            each=self.at_once,
            lease_seconds=_LEASE_SECONDS,
        )()

    async def _process(self, job: ArtifactJob) -> None:
        """Indexes a document and records the result. Never raises, so that parallel documents continue."""
        structlog.contextvars.bind_contextvars(correlation_id=job.correlation_id)
        with _span(job):
            ending = await self._ending(job)
            try:
                await retry_until_available(ending)
            except Exception:
                # The lease expires, and the attempt counts.
                _log.exception("artifact.result_not_recorded", artifact_id=job.artifact_id)

    async def _ending(self, job: ArtifactJob) -> Callable[[], Awaitable[None]]:
        """Indexes the document. Returns a function that records the result in a transaction."""
        is_last = job.attempt >= _MOST_ATTEMPTS
        if job.attempt > _MOST_ATTEMPTS:
            return self._failure(job, "The document couldn't be read.", "crashed")
        try:
            return await self._index(job)
        except Unparsable as problem:
            if problem.retryable and not is_last:
                return self._postpone(job, counts=True)
            return self._failure(job, problem.message, problem.code)
        except NotFound:
            # The event about the deletion will follow.
            return self._failure(job, "The artifact was deleted.", "gone")
        except ArtifactBytesMissing as problem:
            # The session was just deleted, or the bytes are lost.
            return self._failure(job, problem.message, "gone") if is_last else self._postpone(job, _MISSING_SECONDS)
        except Exception as problem:
            if _is_outage(problem):
                _log.warning("artifact.postponed", artifact_id=job.artifact_id, problem=repr(problem))
                return self._postpone(job, counts=False)
            _log.exception("artifact.not_indexed", artifact_id=job.artifact_id)
            return self._postpone(job)

    def _failure(self, job: ArtifactJob, message: str, code: FileErrorCode) -> Callable[[], Awaitable[None]]:
        return partial(self.jobs.failed, job, _error(message, code))

    def _postpone(
        self, job: ArtifactJob, seconds: float = _PUT_OFF_SECONDS, *, counts: bool = True
    ) -> Callable[[], Awaitable[None]]:
        return partial(self.jobs.postpone, job, seconds, counts=counts)

    async def _index(self, job: ArtifactJob) -> Callable[[], Awaitable[None]]:
        await self.jobs.report_progress(job, _BEGUN)
        async with self.source.as_file(job.session_id, job.artifact_id, job.company_id) as path:
            document = await self.reader.parse(path, job.name, job.content_type, company_id=job.company_id)
        await self.jobs.report_progress(job, _PARSED)
        settings = await self.resolver.resolve(None, ChunkingStrategy(), EmbeddingConfig())
        chunks = await self.reader.chunk(document, settings, job.artifact_id, company_id=job.company_id)
        if not chunks:
            raise Unparsable("empty", "The document contains no text.")
        indexed = await indexed_chunks(self.embedders, settings, [(job.artifact_id, chunk) for chunk in chunks])
        index = IndexRef(settings.engine, f"artifacts-{job.company_id}-{settings.hash()[:12]}")
        if not await self.jobs.record_index(job, index):
            return _nothing
        await self.store.put(artifact_text_key(job.artifact_id), one_piece(document.to_bytes()))
        engine = self.engines[index.engine]
        if index.index_id not in await engine.existing([index.index_id]):
            # A recreated index would lack the other documents, so queue them again.
            if lost := await self.jobs.requeue_lost(index):
                _log.warning("index.lost", index_id=index.index_id, engine=index.engine, documents=lost)
            await engine.create_index(index.index_id, settings.dimensions)
        await write(engine, index.index_id, indexed)
        record = partial(self.jobs.indexed, job, characters=len(document.text), chunks=len(chunks))
        if await retry_until_available(record):
            _log.info("artifact.indexed", artifact_id=job.artifact_id, chunks=len(chunks))
        await engine.finish(index.index_id)
        return _nothing


@dataclass(frozen=True, slots=True)
class RemoveDeletedArtifacts:
    """Removes deleted documents from their indexes and from the object store."""

    jobs: PostgresArtifactJobs
    store: ObjectStore
    engines: Engines

    async def __call__(self) -> int:
        """Removes a batch of documents. Returns how many were removed.

        Stops early if an engine or the store is unavailable.
        """
        removed, staying = [], []
        for artifact_id, index in await self.jobs.pending_removal(_REMOVED_AT_ONCE):
            try:
                await self.engines[index.engine].delete_files(index.index_id, [artifact_id])
                await self.store.delete(artifact_text_key(artifact_id))
                removed.append(artifact_id)
            except Exception as problem:
                if isinstance(problem, EngineConflict) or is_outage(problem):
                    _log.warning("artifacts.removal_postponed", problem=repr(problem))
                    break
                # One document that can't be removed must not delay the others.
                _log.exception("artifact.not_removed", artifact_id=artifact_id)
                staying.append(artifact_id)
        await self.jobs.removed(removed)
        await self.jobs.postpone_removal(staying)
        return len(removed)


async def _nothing() -> None:
    """Does nothing, because the result is already recorded or the document was deleted."""


def _is_outage(problem: Exception) -> bool:
    """Returns whether the problem is an outage. Unlike lock contention, outages don't count as attempts."""
    return isinstance(problem, IndexMissing) or is_unreachable(problem)


def _error(message: str, code: FileErrorCode) -> ErrorInfo:
    detail = ErrorDetail(loc=["content"], type=code, message=message)
    return ErrorInfo(type=ErrorKind.VALIDATION, message=message, details=[detail])


def _span(job: ArtifactJob) -> tracing.Span:
    return tracing.span(
        "index document",
        tracing.Kind.CONSUMER,
        {"aes.artifact_id": job.artifact_id, "aes.company_id": job.company_id, "aes.attempt": job.attempt},
        correlation_id=job.correlation_id,
    )
