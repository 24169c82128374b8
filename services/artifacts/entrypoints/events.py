"""Handles other services' events about sessions and documents."""

from libs.contracts.resources.artifacts import ArtifactIndexed, ArtifactIndexing, ArtifactIndexingFailed
from libs.contracts.resources.files import CopyArtifact, DeleteFile, FileDeleted, FileUploaded
from libs.contracts.resources.sessions import SessionDeleted
from libs.eventing import EventRouter
from services.artifacts.use_cases.copy_to_platform import finish_copy, finish_removal, handle_rejection
from services.artifacts.use_cases.delete_session_artifacts import DeleteSessionArtifacts
from services.artifacts.use_cases.record_indexing import record_failure, record_indexed, record_progress


def follow_sessions(router: EventRouter, delete: DeleteSessionArtifacts) -> None:
    router.on(SessionDeleted, delete)


def follow_ingestion(router: EventRouter) -> None:
    router.on(ArtifactIndexing, record_progress)
    router.on(ArtifactIndexed, record_indexed)
    router.on(ArtifactIndexingFailed, record_failure)
    router.on(FileUploaded, finish_copy)
    router.on(FileDeleted, finish_removal)
    router.on_rejected(CopyArtifact, handle_rejection)
    router.on_rejected(DeleteFile, handle_rejection)
