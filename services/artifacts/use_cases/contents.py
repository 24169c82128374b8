"""Reads the contents of artifacts: bytes, tables, texts and passages."""

import asyncio
from dataclasses import dataclass
from typing import Final

from libs.blobs import derived_key, original_key
from libs.contracts.errors import Conflict, UnsupportedMediaType
from libs.contracts.identity import Identity
from libs.contracts.resources.artifacts import ArtifactPassages, ArtifactPreview, ArtifactSearchBody, ArtifactText
from libs.objects import ObjectMissing, ObjectStore, Pieces, read_all
from services.artifacts.adapters.internal_api import HttpDocuments
from services.artifacts.adapters.postgres.artifacts import PostgresArtifactReader
from services.artifacts.domain.artifacts import BytesMissing, StoredArtifact
from services.artifacts.use_cases.access import ArtifactAccess, SessionAccess

# Must be slightly shorter than the gateway's timeout.
_WAIT_SECONDS: Final = 4.0
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    sessions: SessionAccess
    access: ArtifactAccess
    artifacts: PostgresArtifactReader
    documents: HttpDocuments
    store: ObjectStore

    async def open(self, artifact: StoredArtifact, *, start: int = 0, length: int | None = None) -> Pieces:
        """Opens an artifact's content, which the caller must close.

        Raises ``StoreUnavailable`` or ``BytesMissing``.
        """
        try:
            return await self.store.open(original_key(artifact.blob_id), start=start, length=length)
        except ObjectMissing:
            raise BytesMissing from None

    async def preview(self, caller: Identity, artifact_id: str, session_id: str, *, rows: int) -> ArtifactPreview:
        """Returns the first rows of each table in an artifact.

        Raises ``UnsupportedMediaType`` if the file contains no tables, or ``Conflict`` if they haven't been read.
        """
        artifact = await self._processed(caller, artifact_id, session_id)
        if artifact.strategy != "structural_parsing":
            raise UnsupportedMediaType(f"Files of type {artifact.content_type} don't have a preview.")
        if artifact.status == "failed":
            raise Conflict(f"'{artifact.name}' couldn't be read: {_reason(artifact)}")
        if "sheets" not in artifact.metadata:
            raise UnsupportedMediaType(f"'{artifact.name}' isn't an array of objects, so it has no rows.")
        try:
            found = ArtifactPreview.model_validate_json(
                await read_all(self.store, derived_key(artifact.blob_id, "tables", artifact.content_type))
            )
        except ObjectMissing:
            raise BytesMissing from None
        for sheet in found.sheets:
            del sheet.rows[rows:]
        return found

    async def _processed(self, caller: Identity, artifact_id: str, session_id: str) -> StoredArtifact:
        """Waits until the artifact has been processed. Raises ``Conflict`` after four seconds."""
        left = _WAIT_SECONDS
        while True:
            artifact = await self.access.readable(caller, artifact_id, session_id)
            if artifact.status != "pending" or artifact.strategy != "structural_parsing":
                return artifact
            if left <= 0:
                raise Conflict(f"'{artifact.name}' is still being read. Try again later.")
            await asyncio.sleep(_POLL_SECONDS)
            left -= _POLL_SECONDS

    async def text(
        self, caller: Identity, artifact_id: str, session_id: str, *, offset: int, limit: int
    ) -> ArtifactText:
        """Returns a part of a document's text.

        Raises ``UnsupportedMediaType`` if the artifact isn't a document, or ``Conflict`` if the text isn't available.
        """
        artifact = await self.access.readable(caller, artifact_id, session_id)
        if artifact.strategy != "rag_indexing":
            raise UnsupportedMediaType(f"'{artifact.name}' isn't a document.")
        if artifact.status != "ready":
            raise Conflict(f"'{artifact.name}' has no text: {_reason(artifact)}")
        return await self.documents.text(artifact.id, caller, offset=offset, limit=limit)

    async def search(self, caller: Identity, session_id: str, body: ArtifactSearchBody) -> ArtifactPassages:
        """Searches the session's documents that are ready."""
        await self.sessions.readable(session_id, caller)
        names = {
            each.id: each.name
            for each in await self.artifacts.all(session_id)
            if each.strategy == "rag_indexing" and each.status == "ready"
        }
        wanted = list(names) if body.artifact_ids is None else [each for each in body.artifact_ids if each in names]
        if not wanted:
            return ArtifactPassages(results=[])
        found = await self.documents.search(wanted, caller, body)
        return ArtifactPassages(results=[each.model_copy(update={"name": names[each.artifact_id]}) for each in found])


def _reason(artifact: StoredArtifact) -> str:
    if artifact.error is not None:
        return artifact.error.message
    return "it's still being processed. Try again later."
