"""What is told and asked about artifacts on the bus."""

from collections.abc import Callable

from libs.contracts.commands.ingestion import CopyArtifact
from libs.contracts.envelope import Envelope
from libs.contracts.events.artifacts import ArtifactDeleted, ArtifactUploaded
from libs.eventing import CommandContext, CommandRouter, EventRouter, Transaction
from services.ingestion.domain.artifacts import ArtifactWriter
from services.ingestion.domain.ports.files import NewFile, UploadWriter
from services.ingestion.use_cases.copy_artifact import ArtifactCopying


class ArtifactMessages:
    def __init__(
        self,
        copying: ArtifactCopying,
        files: Callable[[Transaction], UploadWriter],
        artifacts: Callable[[Transaction], ArtifactWriter],
    ) -> None:
        self._copying = copying
        self._files = files
        self._artifacts = artifacts

    def register(self, commands: CommandRouter, events: EventRouter) -> None:
        commands.handle_prepared(CopyArtifact, self._fetch, self._copy)
        events.on(ArtifactUploaded, self._uploaded)
        events.on(ArtifactDeleted, self._deleted)

    async def _fetch(self, command: CopyArtifact, context: CommandContext) -> NewFile:
        return await self._copying.fetch(command, context.identity)

    async def _copy(
        self, transaction: Transaction, command: CopyArtifact, context: CommandContext, file: NewFile
    ) -> None:
        uploaded = await self._copying.complete(self._files(transaction), file, context.identity)
        transaction.emit(uploaded, subject=command.file_id)

    async def _uploaded(self, transaction: Transaction, event: ArtifactUploaded, envelope: Envelope) -> None:
        if event.artifact.processing_strategy == "rag_indexing":
            writer = self._artifacts(transaction)
            await writer.add(event.artifact, envelope.company_id, envelope.correlation_id)

    async def _deleted(self, transaction: Transaction, event: ArtifactDeleted, envelope: Envelope) -> None:
        await self._artifacts(transaction).bury(event.artifact_id, event.session_id, envelope.company_id)
