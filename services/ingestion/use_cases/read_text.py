"""Returns the parsed texts of files and artifacts."""

from dataclasses import dataclass

from libs.blobs import derived_key
from libs.contracts.errors import Conflict
from libs.contracts.identity import Identity
from libs.contracts.resources.artifacts import ArtifactText
from libs.contracts.resources.files import FileText
from libs.objects import ObjectMissing, ObjectStore, read_all
from services.ingestion.adapters.postgres.artifact_documents import PostgresArtifactLocator
from services.ingestion.adapters.postgres.files import PostgresFileReader
from services.ingestion.adapters.postgres.texts import PostgresTexts
from services.ingestion.domain.artifacts import ArtifactNotFound, artifact_text_key
from services.ingestion.domain.documents import ParsedDocument


@dataclass(frozen=True, slots=True)
class ReadFileText:
    files: PostgresFileReader
    texts: PostgresTexts
    store: ObjectStore

    async def __call__(self, caller: Identity, file_id: str, *, offset: int, limit: int) -> FileText:
        """Returns a part of the file's text. Raises ``FileNotFound``, or ``Conflict`` if there's no parsed text."""
        file = await self.files.get(caller.company_id, file_id)
        state = (await self.texts.states([file.text])).get(file.text)
        if state is not None and state.failure is not None:
            raise Conflict(f"The file couldn't be read. {state.failure}")
        if state is None or state.state != "parsed":
            raise Conflict("The file hasn't been read yet. Add it to a collection or a knowledge base.")
        try:
            text = await _text(self.store, derived_key(file.blob_id, "text", file.content_type))
        except ObjectMissing:
            raise Conflict("The file's text is missing. The next ingestion reads the file again.") from None
        return FileText(file_id=file.id, text=text[offset : offset + limit], offset=offset, characters=len(text))


@dataclass(frozen=True, slots=True)
class ReadArtifactText:
    """Reads an artifact's text. Only checks the company, because the artifacts service has checked access."""

    locator: PostgresArtifactLocator
    store: ObjectStore

    async def __call__(self, caller: Identity, artifact_id: str, *, offset: int, limit: int) -> ArtifactText:
        """Returns a part of the artifact's text. Raises ``ArtifactNotFound``."""
        located, _ = await self.locator.locate(caller.company_id, [artifact_id])
        if not located:
            raise ArtifactNotFound
        try:
            text = await _text(self.store, artifact_text_key(artifact_id))
        except ObjectMissing:
            raise ArtifactNotFound from None
        part = text[offset : offset + limit]
        return ArtifactText(artifact_id=artifact_id, text=part, offset=offset, characters=len(text))


async def _text(store: ObjectStore, key: str) -> str:
    return ParsedDocument.from_bytes(await read_all(store, key)).text
