"""Take over what the service that indexes documents tells of them."""

from collections.abc import Callable

from libs.contracts.events.artifacts import ArtifactFailed, ArtifactProgress, ArtifactReady
from libs.contracts.events.ingestion import ArtifactIndexed, ArtifactIndexing, ArtifactIndexingFailed
from libs.eventing import Transaction
from services.artifacts.domain.ports import ArtifactWriter


class IndexingNews:
    """What was told before, or of an artifact that is gone, changes nothing."""

    def __init__(self, writer: Callable[[Transaction], ArtifactWriter]) -> None:
        self._writer = writer

    async def progress(self, transaction: Transaction, event: ArtifactIndexing) -> None:
        if await self._writer(transaction).progress(event.artifact_id, event.progress):
            told = ArtifactProgress(artifact_id=event.artifact_id, session_id=event.session_id, progress=event.progress)
            transaction.emit(told, subject=event.artifact_id)

    async def indexed(self, transaction: Transaction, event: ArtifactIndexed) -> None:
        metadata = {"characters": event.characters, "passages": event.passages}
        if await self._writer(transaction).ready(event.artifact_id, metadata):
            ready = ArtifactReady(artifact_id=event.artifact_id, session_id=event.session_id, metadata=metadata)
            transaction.emit(ready, subject=event.artifact_id)

    async def failed(self, transaction: Transaction, event: ArtifactIndexingFailed) -> None:
        if await self._writer(transaction).failed(event.artifact_id, event.error):
            failed = ArtifactFailed(artifact_id=event.artifact_id, session_id=event.session_id, error=event.error)
            transaction.emit(failed, subject=event.artifact_id)
