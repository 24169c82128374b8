"""Records ingestion's progress and results for documents."""

from libs.contracts.messages import Envelope
from libs.contracts.resources.artifacts import (
    ArtifactFailed,
    ArtifactIndexed,
    ArtifactIndexing,
    ArtifactIndexingFailed,
    ArtifactProgress,
    ArtifactReady,
)
from libs.eventing import Transaction
from services.artifacts.adapters.postgres.artifacts import PostgresArtifactWriter


async def record_progress(transaction: Transaction, event: ArtifactIndexing, _: Envelope) -> None:
    if await PostgresArtifactWriter(transaction).progress(event.artifact_id, event.progress):
        made = ArtifactProgress(artifact_id=event.artifact_id, session_id=event.session_id, progress=event.progress)
        transaction.emit(made, subject=event.artifact_id)


async def record_indexed(transaction: Transaction, event: ArtifactIndexed, _: Envelope) -> None:
    metadata = {"characters": event.characters, "passages": event.passages}
    if await PostgresArtifactWriter(transaction).ready(event.artifact_id, metadata):
        ready = ArtifactReady(artifact_id=event.artifact_id, session_id=event.session_id, metadata=metadata)
        transaction.emit(ready, subject=event.artifact_id)


async def record_failure(transaction: Transaction, event: ArtifactIndexingFailed, _: Envelope) -> None:
    if await PostgresArtifactWriter(transaction).failed(event.artifact_id, event.error):
        failed = ArtifactFailed(artifact_id=event.artifact_id, session_id=event.session_id, error=event.error)
        transaction.emit(failed, subject=event.artifact_id)
