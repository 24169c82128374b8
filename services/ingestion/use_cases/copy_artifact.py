"""Make files of artifacts."""

from libs.contracts.api.file_types import type_of
from libs.contracts.commands.ingestion import CopyArtifact
from libs.contracts.events.ingestion import FileUploaded
from libs.contracts.identity import Identity
from libs.objects import ObjectStore
from services.ingestion.domain.artifacts import ArtifactSource
from services.ingestion.domain.files import clean_name, original_key
from services.ingestion.domain.ports.files import NewFile, Uploads, UploadWriter


class ArtifactCopying:
    def __init__(self, uploads: Uploads, store: ObjectStore, source: ArtifactSource) -> None:
        self._uploads = uploads
        self._store = store
        self._source = source

    async def fetch(self, command: CopyArtifact, caller: Identity) -> NewFile:
        """Bring the bytes here; what is not completed after that is collected as any upload.

        Raises ``NotFound``, ``UnsupportedMediaType`` and ``ServiceUnavailable``.
        """
        name = clean_name(command.name)
        kind = type_of(name)
        blob_id = await self._uploads.begin(caller.company_id)
        try:
            async with self._source.content(command.session_id, command.artifact_id, caller) as pieces:
                written = await self._store.put(original_key(blob_id), pieces)
        except BaseException:
            await self._uploads.abandon([blob_id])
            raise
        return NewFile(
            id=command.file_id,
            blob_id=blob_id,
            name=name,
            content_type=kind.content_type,
            size=written.size,
            sha256=written.sha256,
        )

    @staticmethod
    async def complete(writer: UploadWriter, file: NewFile, caller: Identity) -> FileUploaded:
        stored = await writer.complete(caller.company_id, caller.user_id, [file])
        return FileUploaded(file=stored[0].public())
