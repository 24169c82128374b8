"""Read artifacts: their records, their bytes, and what was found in them."""

import asyncio
from collections.abc import Callable
from typing import Final

from libs.contracts.api.artifacts import (
    Artifact,
    ArtifactPage,
    ArtifactPassages,
    ArtifactPreview,
    ArtifactSearchBody,
    ArtifactState,
    ArtifactText,
    ArtifactUrl,
)
from libs.contracts.errors import Conflict, UnsupportedMediaType
from libs.contracts.identity import Identity
from libs.objects import ObjectMissing, ObjectStore, Pieces, read_all
from services.artifacts.domain.artifacts import (
    ArtifactNotFound,
    BytesMissing,
    StoredArtifact,
    original_key,
    tables_key,
)
from services.artifacts.domain.links import LinkSigner, Parameters, artifact_of
from services.artifacts.domain.ports import ArtifactReader, Documents
from services.artifacts.use_cases.find_session import SessionAccess, visible_artifact
from services.artifacts.use_cases.make_links import Links

# A little less than the gateway waits for an answer.
_PATIENCE_SECONDS: Final = 4.0
_LOOK_SECONDS: Final = 0.1


class ArtifactReading:
    """Everything raises ``SessionNotFound`` or ``ArtifactNotFound`` for what the caller may not see."""

    def __init__(
        self,
        artifacts: ArtifactReader,
        access: SessionAccess,
        store: ObjectStore,
        documents: Documents,
        links: Links,
        signer: LinkSigner,
        clock: Callable[[], float],
    ) -> None:
        self._artifacts = artifacts
        self._access = access
        self._store = store
        self._documents = documents
        self._links = links
        self._signer = signer
        self._clock = clock

    async def page(self, caller: Identity, session_id: str, *, limit: int, offset: int) -> ArtifactPage:
        await self._access.readable(session_id, caller)
        found, total = await self._artifacts.page(session_id, limit=limit, offset=offset)
        return ArtifactPage(
            artifacts=[self._links.public(each) for each in found], total=total, has_more=offset + len(found) < total
        )

    async def one(self, caller: Identity, artifact_id: str, session_id: str | None = None) -> Artifact:
        return self._links.public(await self.stored(caller, artifact_id, session_id))

    async def stored(self, caller: Identity, artifact_id: str, session_id: str | None = None) -> StoredArtifact:
        return await visible_artifact(self._artifacts, caller, artifact_id, session_id)

    async def state(self, caller: Identity, artifact_id: str, session_id: str) -> ArtifactState:
        found = await self.stored(caller, artifact_id, session_id)
        return ArtifactState(
            artifact_id=found.id, processing_status=found.status, progress=found.progress, error=found.error
        )

    async def link(self, caller: Identity, artifact_id: str, session_id: str) -> ArtifactUrl:
        return self._links.link(await self.stored(caller, artifact_id, session_id))

    async def behind(self, caller: Identity, session_id: str, url: str) -> Artifact:
        """What a link was made for; that it has expired does not matter to who may see the artifact anyway."""
        return await self.one(caller, artifact_of(url) or "", session_id)

    async def by_link(self, artifact_id: str, parameters: Parameters) -> StoredArtifact:
        """What a link shows to anybody. Raises ``AuthenticationFailed``."""
        self._signer.check(artifact_id, parameters, self._clock())
        artifact = await self._artifacts.get(artifact_id)
        if artifact is None:
            raise ArtifactNotFound
        return artifact

    async def content(self, artifact: StoredArtifact, *, start: int = 0, length: int | None = None) -> Pieces:
        """Bytes of the artifact; the caller closes what is returned. Raises ``StoreUnavailable``, ``BytesMissing``."""
        try:
            return await self._store.open(original_key(artifact.id), start=start, length=length)
        except ObjectMissing:
            raise BytesMissing from None

    async def preview(self, caller: Identity, artifact_id: str, session_id: str, *, rows: int) -> ArtifactPreview:
        """Raises ``UnsupportedMediaType`` for what holds no tables, and ``Conflict`` while they are not read yet."""
        artifact = await self._processed(caller, artifact_id, session_id)
        if artifact.strategy != "structural_parsing":
            raise UnsupportedMediaType(f"There is no preview of {artifact.content_type}.")
        if artifact.status == "failed":
            raise Conflict(f"'{artifact.name}' could not be read: {_reason(artifact)}")
        if "sheets" not in artifact.metadata:
            raise UnsupportedMediaType(f"'{artifact.name}' is no array of objects, so it has no rows to show.")
        try:
            found = ArtifactPreview.model_validate_json(await read_all(self._store, tables_key(artifact.id)))
        except ObjectMissing:
            raise BytesMissing from None
        for sheet in found.sheets:
            del sheet.rows[rows:]
        return found

    async def text(
        self, caller: Identity, artifact_id: str, session_id: str, *, offset: int, limit: int
    ) -> ArtifactText:
        """Raises ``UnsupportedMediaType`` for what is no document, ``Conflict`` when it has no text (yet)."""
        artifact = await self.stored(caller, artifact_id, session_id)
        if artifact.strategy != "rag_indexing":
            raise UnsupportedMediaType(f"'{artifact.name}' is no document.")
        if artifact.status != "ready":
            raise Conflict(f"'{artifact.name}' has no text: {_reason(artifact)}")
        return await self._documents.text(artifact.id, caller, offset=offset, limit=limit)

    async def search(self, caller: Identity, session_id: str, body: ArtifactSearchBody) -> ArtifactPassages:
        """Passages of the session's documents that are ready; others are passed over."""
        await self._access.readable(session_id, caller)
        names = {
            each.id: each.name
            for each in await self._artifacts.all(session_id)
            if each.strategy == "rag_indexing" and each.status == "ready"
        }
        wanted = list(names) if body.artifact_ids is None else [each for each in body.artifact_ids if each in names]
        if not wanted:
            return ArtifactPassages(results=[])
        found = await self._documents.search(wanted, caller, body)
        return ArtifactPassages(results=[each.model_copy(update={"name": names[each.artifact_id]}) for each in found])

    async def _processed(self, caller: Identity, artifact_id: str, session_id: str) -> StoredArtifact:
        """The artifact when its processing has ended. Raises ``Conflict`` when that takes long."""
        left = _PATIENCE_SECONDS
        while True:
            artifact = await self.stored(caller, artifact_id, session_id)
            if artifact.status != "pending" or artifact.strategy != "structural_parsing":
                return artifact
            if left <= 0:
                raise Conflict(f"'{artifact.name}' is still being read; try again later.")
            await asyncio.sleep(_LOOK_SECONDS)
            left -= _LOOK_SECONDS


def _reason(artifact: StoredArtifact) -> str:
    if artifact.error is not None:
        return artifact.error.message
    return "it is still being processed."
