"""Events of the artifacts service: documents of sessions that are to be indexed, and deleted ones."""

from collections.abc import Callable

from libs.contracts.events.artifacts import ArtifactDeleted, ArtifactUploaded
from libs.contracts.messages import Envelope
from libs.eventing import EventRouter, Transaction
from services.ingestion.domain.artifacts import ArtifactWriter


def artifact_events(router: EventRouter, artifacts: Callable[[Transaction], ArtifactWriter]) -> None:
    async def uploaded(transaction: Transaction, event: ArtifactUploaded, envelope: Envelope) -> None:
        if event.artifact.processing_strategy == "rag_indexing":
            context = (envelope.company_id, envelope.correlation_id, envelope.owner_id)
            await artifacts(transaction).add(event.artifact, *context)

    async def deleted(transaction: Transaction, event: ArtifactDeleted, envelope: Envelope) -> None:
        await artifacts(transaction).mark_deleted(event.artifact_id, event.session_id, envelope.company_id)

    router.on(ArtifactUploaded, uploaded)
    router.on(ArtifactDeleted, deleted)
