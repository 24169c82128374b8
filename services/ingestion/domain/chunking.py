"""Cutting parsed documents into passages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID, uuid5

from libs.contracts.api.knowledge import ChunkingStrategy
from services.ingestion.domain.documents import Chunk, ParsedDocument, settings_hash
from services.ingestion.domain.knowledge_bases import IndexSettings

_CHUNKS = UUID("0b0d8a52-6c0f-5f4e-9d4c-8f1f6a3e2c71")


class Chunker(Protocol):
    async def chunk(
        self, document: ParsedDocument, strategy: ChunkingStrategy, source: str, index: IndexSettings | None = None
    ) -> Sequence[Chunk]:
        """Chunks in order of the text; none of them is blank.

        `source` names what is cut, for the ids: file id and content hash. Chunks for an `index` may come with the
        vectors and terms that it takes, as far as those can be made where they are cut. Raises Unparsable when time
        or memory run out.
        """
        ...


class ChunkIds:
    """Deterministic ids: the same source cut in the same way gives the same ids."""

    def __init__(self, source: str, strategy: ChunkingStrategy) -> None:
        self._document = uuid5(_CHUNKS, f"{source}/{settings_hash(strategy)}")

    def of(self, index: int) -> str:
        return str(uuid5(self._document, str(index)))
