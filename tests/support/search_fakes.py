"""Fakes of what a search of a knowledge base is made of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np

from libs.contracts.resources.knowledge_bases import ChunkingStrategy, SearchFilters
from services.ingestion.domain.embedding import EmbeddingRefused, Vectors
from services.ingestion.domain.engines import (
    EVERY_FILE,
    Candidate,
    EngineUnavailable,
    FileSelection,
    Hit,
    IndexedChunk,
    IndexMissing,
    Query,
)
from services.ingestion.domain.knowledge_bases import IndexSettings, LiveIndex


@dataclass
class MemorySearching:
    chunks: dict[tuple[str, str], IndexedChunk]

    async def candidates(self, query: Query) -> list[Candidate]:
        selection, words = query.files, set(query.text.lower().split())
        found = []
        for key, each in self.chunks.items():
            if each.file_id in selection.without or (selection.only is not None and each.file_id not in selection.only):
                continue
            cosine = None if query.vector is None else float(query.vector @ each.vector)
            shared = len(words & set(each.text.lower().split()))
            if cosine or shared:
                found.append(Candidate(key, each.position, cosine, None if query.mode == "semantic" else shared))
        return found

    async def hits(self, scores: Mapping[tuple[str, str], float]) -> list[Hit]:
        return [
            Hit(p.chunk_id, p.file_id, p.text, score, p.start, p.end, p.page, p.row)
            for key, score in scores.items()
            if (p := self.chunks.get(key))
        ]


class MemoryEngine:
    """An Engine that counts common words and compares vectors, in memory."""

    name = "pgvector"

    def __init__(self) -> None:
        self.indexes: dict[str, dict[tuple[str, str], IndexedChunk]] = {}
        self.down = False

    async def create_index(self, index_id: str, dimensions: int) -> None:
        self.indexes.setdefault(index_id, {})

    async def drop_index(self, index_id: str) -> None:
        self.indexes.pop(index_id, None)

    async def existing(self, index_ids: Sequence[str]) -> set[str]:
        await self.ping()
        return set(index_ids) & self.indexes.keys()

    async def write(self, index_id: str, chunks: Sequence[IndexedChunk]) -> None:
        self._of(index_id).update({(each.file_id, each.chunk_id): each for each in chunks})

    async def finish(self, index_id: str) -> None:
        self._of(index_id)

    async def delete_files(self, index_id: str, file_ids: Sequence[str]) -> None:
        chunks = self.indexes.get(index_id, {})
        for key in [key for key in chunks if key[0] in set(file_ids)]:
            del chunks[key]

    async def count(self, index_id: str) -> int:
        return len(self._of(index_id))

    async def chunk_ids(self, index_id: str, file_id: str) -> list[str]:
        own = [each for each in self._of(index_id).values() if each.file_id == file_id]
        return [each.chunk_id for each in sorted(own, key=lambda each: each.position)]

    @asynccontextmanager
    async def searching(self, index_id: str) -> AsyncIterator[MemorySearching]:
        yield MemorySearching(self._of(index_id))

    async def ping(self) -> None:
        if self.down:
            raise EngineUnavailable("down")

    async def close(self) -> None:
        self.indexes.clear()

    def _of(self, index_id: str) -> dict[tuple[str, str], IndexedChunk]:
        if self.down:
            raise EngineUnavailable("down")
        if index_id not in self.indexes:
            raise IndexMissing(index_id)
        return self.indexes[index_id]


@dataclass
class SettledIndexes:
    """Indexes of a company's knowledge bases; each look-up takes the next of `later`."""

    known: dict[tuple[str, str], LiveIndex] = field(default_factory=dict)
    later: list[LiveIndex] = field(default_factory=list)

    async def live_index(self, company_id: str, knowledge_base_id: str) -> LiveIndex | None:
        found = self.known.get((company_id, knowledge_base_id))
        if found is not None and self.later:
            self.known[company_id, knowledge_base_id] = self.later.pop(0)
        return found


@dataclass
class NamedFiles:
    named: dict[str, str] = field(default_factory=dict)
    selection: FileSelection = EVERY_FILE
    asked: list[SearchFilters] = field(default_factory=list)

    async def select(self, company_id: str, index_id: str, filters: SearchFilters) -> FileSelection:
        self.asked.append(filters)
        return self.selection

    async def names(self, company_id: str, file_ids: Collection[str]) -> Mapping[str, str]:
        return {file_id: name for file_id, name in self.named.items() if file_id in file_ids}


@dataclass
class WordEmbedder:
    """Texts with equal words have equal vectors."""

    dimensions: int = 16
    model: str = "words:test"
    embedded: list[str] = field(default_factory=list)
    failure: Exception | None = None

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if self.failure is not None:
            raise self.failure
        if not all(text.strip() for text in texts):
            raise EmbeddingRefused("A text without content can't be embedded.")
        self.embedded += texts
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                vectors[row, sum(word.encode()) % self.dimensions] += 1
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    async def embedder(self, provider: str, model: str, dimensions: int | None) -> WordEmbedder:
        """It is its own `Embedders`."""
        return self


def live_index(
    index_id: str | None, *, knowledge_base_id: str = "kb", engine: str = "pgvector", given_up: bool = False
) -> LiveIndex:
    settings = IndexSettings(engine, ChunkingStrategy(), "words", "test", 16)
    return LiveIndex(knowledge_base_id, "Handbook", index_id, settings, given_up=given_up)
