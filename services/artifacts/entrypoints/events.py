"""Events of other services that artifacts depend on."""

from libs.contracts.commands.ingestion import CopyArtifact, DeleteFile
from libs.contracts.envelope import Envelope
from libs.contracts.events.ingestion import (
    ArtifactIndexed,
    ArtifactIndexing,
    ArtifactIndexingFailed,
    FileDeleted,
    FileUploaded,
)
from libs.contracts.events.runtime import SessionDeleted
from libs.contracts.messages import CommandRejected
from libs.eventing import EventRouter, MessageContext, Transaction
from services.artifacts.use_cases.copy_to_platform import FinishCopy, FinishRemoval, HandleRejection
from services.artifacts.use_cases.delete_artifacts import SessionDeletion
from services.artifacts.use_cases.follow_indexing import IndexingNews


class OtherServices:
    def __init__(
        self,
        news: IndexingNews,
        finish_copy: FinishCopy,
        finish_removal: FinishRemoval,
        handle_rejection: HandleRejection,
        deletion: SessionDeletion,
    ) -> None:
        self._news = news
        self._finish_copy = finish_copy
        self._finish_removal = finish_removal
        self._handle_rejection = handle_rejection
        self._deletion = deletion

    def follow_sessions(self, router: EventRouter) -> None:
        router.on(SessionDeleted, self._session_deleted)

    def follow_ingestion(self, router: EventRouter) -> None:
        router.on(ArtifactIndexing, self._indexing)
        router.on(ArtifactIndexed, self._indexed)
        router.on(ArtifactIndexingFailed, self._indexing_failed)
        router.on(FileUploaded, self._file_uploaded)
        router.on(FileDeleted, self._file_deleted)
        router.on_rejected(CopyArtifact, self._rejected)
        router.on_rejected(DeleteFile, self._rejected)

    async def _session_deleted(self, transaction: Transaction, event: SessionDeleted, envelope: Envelope) -> None:
        await self._deletion.delete(transaction, event.session_id, envelope.company_id)

    async def _indexing(self, transaction: Transaction, event: ArtifactIndexing, _: Envelope) -> None:
        await self._news.progress(transaction, event)

    async def _indexed(self, transaction: Transaction, event: ArtifactIndexed, _: Envelope) -> None:
        await self._news.indexed(transaction, event)

    async def _indexing_failed(self, transaction: Transaction, event: ArtifactIndexingFailed, _: Envelope) -> None:
        await self._news.failed(transaction, event)

    async def _file_uploaded(self, transaction: Transaction, event: FileUploaded, _: Envelope) -> None:
        await self._finish_copy(transaction, event.file.id)

    async def _file_deleted(self, transaction: Transaction, event: FileDeleted, envelope: Envelope) -> None:
        context = MessageContext(envelope.company_id, envelope.correlation_id, envelope.id, envelope.traceparent)
        await self._finish_removal(transaction, event.file_id, context)

    async def _rejected(self, transaction: Transaction, event: CommandRejected, envelope: Envelope) -> None:
        if envelope.causation_id is not None:
            await self._handle_rejection(transaction, envelope.causation_id, event.error)
