"""Port for parsers, and errors for files that can't be parsed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from libs.contracts.error_catalogue import FileErrorCode
from libs.contracts.resources.knowledge_bases import ChunkingStrategy
from services.ingestion.domain.documents import Chunk, ParsedDocument
from services.ingestion.domain.knowledge_bases import IndexSettings


class Unparsable(Exception):
    """A file without usable text. `message` tells the file's owner what to do.

    `retryable`: parsing may succeed later, because time or memory was short.
    """

    def __init__(self, code: FileErrorCode, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable


class DocumentReader(Protocol):
    """Parses and cuts files. Calls may run concurrently, be cancelled and be repeated.

    `source` identifies the content in chunk IDs by file ID and content hash. With an `index`, chunks may include its
    vectors and terms, if the cutting process can compute them. Companies take turns; work without a company counts as
    one company's. Every method raises Unparsable.
    """

    async def parse(self, path: Path, name: str, content_type: str, *, company_id: str = "") -> ParsedDocument:
        """Parses the file at `path`.

        The extension of `name` determines the format; if it's unknown, `content_type` does.
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
        """Returns non-blank chunks in text order."""

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
        """Parses and cuts in one step, which avoids transferring the text twice."""
