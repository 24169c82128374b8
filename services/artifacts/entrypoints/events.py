"""Handles other services' events about sessions and documents."""

from collections.abc import Callable

import structlog

from libs.contracts.messages import Envelope
from libs.contracts.resources.artifacts import (
    ArtifactDeleted,
    ArtifactFailed,
    ArtifactIndexed,
    ArtifactIndexing,
    ArtifactIndexingFailed,
    ArtifactProgress,
    ArtifactReady,
)
from libs.contracts.resources.files import CopyArtifact, DeleteFile, FileDeleted, FileUploaded
from libs.contracts.resources.sessions import SessionDeleted
from libs.eventing import EventRouter, Transaction
from services.artifacts.adapters.postgres.artifacts import PostgresArtifactWriter
from services.artifacts.use_cases.copy_to_platform import PlatformCopies

_log = structlog.get_logger(__name__)


def follow_sessions(router: EventRouter, on_deleted: Callable[[], None]) -> None:
    """Deletes the artifacts of deleted sessions. ``on_deleted`` is called if a session had any."""

    async def delete(transaction: Transaction, event: SessionDeleted, envelope: Envelope) -> None:
        artifact_ids = await PostgresArtifactWriter(transaction).delete_session(event.session_id, envelope.company_id)
        for artifact_id in artifact_ids:
            transaction.emit(ArtifactDeleted(artifact_id=artifact_id, session_id=event.session_id), subject=artifact_id)
        if artifact_ids:
            on_deleted()
        _log.info("session.artifacts_deleted", session_id=event.session_id, artifacts=len(artifact_ids))

    router.on(SessionDeleted, delete)


def follow_ingestion(router: EventRouter) -> None:
    router.on(ArtifactIndexing, _record_progress)
    router.on(ArtifactIndexed, _record_indexed)
    router.on(ArtifactIndexingFailed, _record_failure)
    copies = PlatformCopies()
    router.on(FileUploaded, copies.finish_copy)
    router.on(FileDeleted, copies.finish_removal)
    router.on_rejected(CopyArtifact, copies.reject)
    router.on_rejected(DeleteFile, copies.reject)


async def _record_progress(transaction: Transaction, event: ArtifactIndexing, _: Envelope) -> None:
    made = ArtifactProgress(artifact_id=event.artifact_id, session_id=event.session_id, progress=event.progress)
    await PostgresArtifactWriter(transaction).progress(made)


async def _record_indexed(transaction: Transaction, event: ArtifactIndexed, _: Envelope) -> None:
    metadata = {"characters": event.characters, "passages": event.passages}
    ready = ArtifactReady(artifact_id=event.artifact_id, session_id=event.session_id, metadata=metadata)
    await PostgresArtifactWriter(transaction).ready(ready)


async def _record_failure(transaction: Transaction, event: ArtifactIndexingFailed, _: Envelope) -> None:
    failed = ArtifactFailed(artifact_id=event.artifact_id, session_id=event.session_id, error=event.error)
    await PostgresArtifactWriter(transaction).failed(failed)
