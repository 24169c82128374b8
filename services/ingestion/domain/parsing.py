"""The port for parsers, and the error for files that can't be parsed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from libs.contracts.error_catalogue import FileErrorCode
from services.ingestion.domain.documents import Chunk, ParsedDocument
from services.ingestion.domain.knowledge_bases import IndexSettings


class Unparsable(Exception):
    """The file couldn't be parsed. If ``retryable`` is set, a later attempt may succeed."""

    def __init__(self, code: FileErrorCode, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable


class DocumentReader(Protocol):
    """Parses files and cuts them into chunks. Companies take turns. Every method raises ``Unparsable``.

    `source` identifies the content in chunk IDs. Chunks may include vectors and terms for the index.
    """

    async def parse(self, path: Path, name: str, content_type: str, *, company_id: str = "") -> ParsedDocument:
        """Parses a file. `content_type` only matters if the extension of `name` is unknown."""

    async def chunk(
        self, document: ParsedDocument, index: IndexSettings, source: str, *, company_id: str = ""
    ) -> Sequence[Chunk]:
        """Returns the document's chunks in text order. Blank chunks are omitted."""

    async def parse_and_chunk(
        self, path: Path, name: str, content_type: str, index: IndexSettings, source: str, *, company_id: str = ""
    ) -> tuple[ParsedDocument, Sequence[Chunk]]:
        """Parses and cuts the file in one step, so that the text isn't transferred twice."""
