"""The port for parsers, and the error for files that can't be parsed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from libs.contracts.error_catalogue import FileErrorCode
from libs.contracts.resources.knowledge_bases import ChunkingStrategy
from services.ingestion.domain.documents import Chunk, ParsedDocument
from services.ingestion.domain.knowledge_bases import IndexSettings


class Unparsable(Exception):
    """The file has no usable text. `message` tells its owner what to do.

    With `retryable`, parsing may succeed later, because time or memory was short.
    """

    def __init__(self, code: FileErrorCode, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable


class DocumentReader(Protocol):
    """Parses and cuts files. Calls may run concurrently, be cancelled and be repeated.

    `source` identifies the content, by file ID and content hash, in chunk IDs. With an `index`, chunks may include the
    vectors and terms for it, if the cutting process can compute them. Companies take turns, and work without a company
    counts as one company's. Every method raises Unparsable.
    """

    async def parse(self, path: Path, name: str, content_type: str, *, company_id: str = "") -> ParsedDocument:
        """Parses the file at `path`.

        The format is determined by the extension of `name`, or by `content_type` if the extension is unknown.
        """

    async def chunk(
        self,
        document: ParsedDocument,
        strategy: ChunkingStrategy,
        source: str,
        index: IndexSettings | None = None,
        *,
        company_id: str = "",
    ) -> Sequence[Chunk]:
        """Returns the document's chunks in text order. Blank chunks are omitted."""

    async def parse_and_chunk(
        self,
        path: Path,
        name: str,
        content_type: str,
        strategy: ChunkingStrategy,
        source: str,
        index: IndexSettings | None = None,
        *,
        company_id: str = "",
    ) -> tuple[ParsedDocument, Sequence[Chunk]]:
        """Parses and cuts the file in one step, so that the text isn't transferred twice."""
