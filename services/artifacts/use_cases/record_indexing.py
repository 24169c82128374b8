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
    made = ArtifactProgress(artifact_id=event.artifact_id, session_id=event.session_id, progress=event.progress)
    await PostgresArtifactWriter(transaction).progress(made)


async def record_indexed(transaction: Transaction, event: ArtifactIndexed, _: Envelope) -> None:
    metadata = {"characters": event.characters, "passages": event.passages}
    ready = ArtifactReady(artifact_id=event.artifact_id, session_id=event.session_id, metadata=metadata)
    await PostgresArtifactWriter(transaction).ready(ready)


async def record_failure(transaction: Transaction, event: ArtifactIndexingFailed, _: Envelope) -> None:
    failed = ArtifactFailed(artifact_id=event.artifact_id, session_id=event.session_id, error=event.error)
    await PostgresArtifactWriter(transaction).failed(failed)
