"""Deletes the artifacts of a deleted session."""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from libs.contracts.messages import Envelope
from libs.contracts.resources.artifacts import ArtifactDeleted
from libs.contracts.resources.sessions import SessionDeleted
from libs.eventing import Transaction
from services.artifacts.adapters.postgres.artifacts import PostgresArtifactWriter

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DeleteSessionArtifacts:
    """Deletes the artifacts of a session. ``on_deleted`` is called if there were any."""

    on_deleted: Callable[[], None]

    async def __call__(self, transaction: Transaction, event: SessionDeleted, envelope: Envelope) -> None:
        artifact_ids = await PostgresArtifactWriter(transaction).delete_session(event.session_id, envelope.company_id)
        for artifact_id in artifact_ids:
            transaction.emit(ArtifactDeleted(artifact_id=artifact_id, session_id=event.session_id), subject=artifact_id)
        if artifact_ids:
            self.on_deleted()
        _log.info("session.artifacts_deleted", session_id=event.session_id, artifacts=len(artifact_ids))
