"""Port of parsers, and reasons why a file cannot be parsed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from libs.contracts.error_catalogue import FileErrorCode
from libs.contracts.resources.knowledge_bases import ChunkingStrategy
from services.ingestion.domain.documents import Chunk, ParsedDocument
from services.ingestion.domain.knowledge_bases import IndexSettings


class Unparsable(Exception):
    """A file without usable text. `message` tells the owner of the file what to do about it.

    `retryable`: the same bytes may be readable another time (the machine was short of time or memory).
    """

    def __init__(self, code: FileErrorCode, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable


class DocumentReader(Protocol):
    """Parses and cuts files. Calls may be concurrent and cancelled, and are safe to repeat.

    `source` names what is cut, for the ids: file id and content hash. Chunks for an `index` may come with the vectors
    and terms that it takes, as far as those can be made where they are cut. Companies take turns; work that is for none
    in particular is like that of one. Every method raises Unparsable.
    """

    async def parse(self, path: Path, name: str, content_type: str, *, company_id: str = "") -> ParsedDocument:
        """Parses the file at `path`, whose format follows from the extension of `name`, else from `content_type`."""

    async def chunk(
        self,
        document: ParsedDocument,
        strategy: ChunkingStrategy,
        source: str,
        index: IndexSettings | None = None,
        *,
        company_id: str = "",
    ) -> Sequence[Chunk]:
        """Chunks in order of the text; none of them is blank."""

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
        """Parses and cuts in one step, which saves moving the text twice."""
