"""Handles the artifacts service's events about uploaded and deleted session documents."""

from libs.contracts.messages import Envelope
from libs.contracts.resources.artifacts import ArtifactDeleted, ArtifactUploaded
from libs.eventing import EventRouter, Transaction
from services.ingestion.adapters.postgres.artifact_documents import PostgresArtifactWriter


def artifact_events(router: EventRouter) -> None:
    router.on(ArtifactUploaded, _uploaded)
    router.on(ArtifactDeleted, _deleted)


async def _uploaded(transaction: Transaction, event: ArtifactUploaded, envelope: Envelope) -> None:
    if event.artifact.processing_strategy == "rag_indexing":
        context = (envelope.company_id, envelope.correlation_id, envelope.owner_id)
        await PostgresArtifactWriter(transaction).add(event.artifact, *context)


async def _deleted(transaction: Transaction, event: ArtifactDeleted, envelope: Envelope) -> None:
    writer = PostgresArtifactWriter(transaction)
    await writer.mark_deleted(event.artifact_id, event.session_id, envelope.company_id)
