"""Port of parsers, and errors for files that can't be parsed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from libs.contracts.error_catalogue import FileErrorCode
from libs.contracts.resources.knowledge_bases import ChunkingStrategy
from services.ingestion.domain.documents import Chunk, ParsedDocument
from services.ingestion.domain.knowledge_bases import IndexSettings


class Unparsable(Exception):
    """A file without usable text. `message` tells the file's owner what to do.

    `retryable`: parsing may succeed another time, because the machine was short of time or memory.
    """

    def __init__(self, code: FileErrorCode, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable


class DocumentReader(Protocol):
    """Parses and cuts files. Calls may be concurrent and cancelled, and are safe to repeat.

    `source` names the content for the chunk ids: file id and content hash. With an `index`, chunks may include its
    vectors and terms, if the cutting process can compute them. Companies take turns; work without a company counts as
    one company's. Every method raises Unparsable.
    """

    async def parse(self, path: Path, name: str, content_type: str, *, company_id: str = "") -> ParsedDocument:
        """Parses the file at `path`. The extension of `name` determines the format, otherwise `content_type`."""

    async def chunk(
        self,
        document: ParsedDocument,
        strategy: ChunkingStrategy,
        source: str,
        index: IndexSettings | None = None,
        *,
        company_id: str = "",
    ) -> Sequence[Chunk]:
        """Non-blank chunks in text order."""

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
        """Parses and cuts in one step, which avoids moving the text twice."""
