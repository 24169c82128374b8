"""Reads the text that was parsed from a file."""

from dataclasses import dataclass

from libs.blobs import derived_key
from libs.contracts.api.files import FileText
from libs.contracts.errors import Conflict
from libs.contracts.identity import Identity
from libs.objects import ObjectMissing, ObjectStore, read_all
from services.ingestion.domain.documents import ParsedDocument
from services.ingestion.domain.files import FileNotFound, StoredFile
from services.ingestion.domain.ports.files import FileReader, Texts


@dataclass(frozen=True, slots=True)
class ReadFileText:
    """Passages of search results are parts of this text."""

    files: FileReader
    texts: Texts
    store: ObjectStore

    async def __call__(self, caller: Identity, file_id: str, *, offset: int, limit: int) -> FileText:
        """A part of the text. Raises ``FileNotFound``, and ``Conflict`` when there is no text (yet)."""
        file = await self.files.get(caller.company_id, file_id)
        if file is None:
            raise FileNotFound
        document = await self._document(file)
        part = document.text[offset : offset + limit]
        return FileText(file_id=file.id, text=part, offset=offset, characters=len(document.text))

    async def _document(self, file: StoredFile) -> ParsedDocument:
        state = (await self.texts.states([file.text])).get(file.text)
        if state is not None and state.failure is not None:
            raise Conflict(f"The file has no text: {state.failure.message}")
        if state is None or state.state != "parsed":
            raise Conflict("The file has not been read yet. Files of collections and knowledge bases are.")
        try:
            return ParsedDocument.from_bytes(
                await read_all(self.store, derived_key(file.blob_id, "text", file.content_type))
            )
        except ObjectMissing:
            raise Conflict("The file's text is gone; the next ingestion reads it again.") from None
