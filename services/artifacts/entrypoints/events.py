"""Events of other services that artifacts depend on."""

from libs.contracts.commands.ingestion import CopyArtifact, DeleteFile
from libs.contracts.events.ingestion import (
    ArtifactIndexed,
    ArtifactIndexing,
    ArtifactIndexingFailed,
    FileDeleted,
    FileUploaded,
)
from libs.contracts.events.runtime import SessionDeleted
from libs.eventing import EventRouter
from services.artifacts.use_cases.copy_to_platform import FinishCopy, FinishRemoval, HandleRejection
from services.artifacts.use_cases.delete_session_artifacts import DeleteSessionArtifacts
from services.artifacts.use_cases.indexing_event_handler import IndexingEventHandler


def follow_sessions(router: EventRouter, delete: DeleteSessionArtifacts) -> None:
    router.on(SessionDeleted, delete)


def follow_ingestion(
    router: EventRouter,
    indexing: IndexingEventHandler,
    finish_copy: FinishCopy,
    finish_removal: FinishRemoval,
    handle_rejection: HandleRejection,
) -> None:
    router.on(ArtifactIndexing, indexing.progress)
    router.on(ArtifactIndexed, indexing.indexed)
    router.on(ArtifactIndexingFailed, indexing.failed)
    router.on(FileUploaded, finish_copy)
    router.on(FileDeleted, finish_removal)
    router.on_rejected(CopyArtifact, handle_rejection)
    router.on_rejected(DeleteFile, handle_rejection)
