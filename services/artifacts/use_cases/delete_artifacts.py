"""Everything of a session goes when the session does."""

from collections.abc import Callable

import structlog

from libs.contracts.events.artifacts import ArtifactDeleted
from libs.eventing import Transaction
from services.artifacts.domain.ports import ArtifactWriter

_log = structlog.get_logger(__name__)


class SessionDeletion:
    """``on_deleted``: bytes are left behind, to be removed after the transaction."""

    def __init__(
        self,
        writer: Callable[[Transaction], ArtifactWriter],
        *,
        on_deleted: Callable[[], None],
    ) -> None:
        self._writer = writer
        self._on_deleted = on_deleted

    async def delete(self, transaction: Transaction, session_id: str, company_id: str) -> None:
        artifact_ids = await self._writer(transaction).delete_session(session_id, company_id)
        for artifact_id in artifact_ids:
            transaction.emit(ArtifactDeleted(artifact_id=artifact_id, session_id=session_id), subject=artifact_id)
        if artifact_ids:
            self._on_deleted()
        _log.info("session.forgotten", session_id=session_id, artifacts=len(artifact_ids))
