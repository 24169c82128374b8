"""Port of search engines."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from libs.contracts.errors import ServiceUnavailable
from services.ingestion.domain.documents import Chunk, TermCounts

Vector = npt.NDArray[np.float32]
Mode = Literal["hybrid", "semantic", "keyword"]
ChunkKey = tuple[str, str]
"""The ids of a file and of a chunk in it."""
_LEAST_DEPTH: Final = 100


class IndexMissing(Exception):
    """The index was dropped or never created. A late write to a dropped index raises this and writes nothing."""


class EngineUnavailable(ServiceUnavailable):
    """The engine didn't answer; a retry may succeed."""


class EngineConflict(Exception):
    """All attempts conflicted with other writers. Counts as a failed attempt, not as an outage."""


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk to index. ``start`` and ``end`` are character offsets in the document's text.

    If ``terms`` is None, an engine that needs them counts them itself.
    """

    chunk_id: str
    file_id: str
    position: int
    """Position of the chunk in its file, from 0."""
    text: str
    vector: Vector
    start: int
    end: int
    page: int | None = None
    row: int | None = None
    terms: TermCounts | None = None

    @classmethod
    def of(cls, chunk: Chunk, file_id: str, vector: Vector) -> Self:
        return cls(
            chunk.id,
            file_id,
            chunk.index,
            chunk.text,
            vector,
            chunk.start,
            chunk.end,
            chunk.page,
            chunk.row,
            chunk.terms,
        )


@dataclass(frozen=True, slots=True)
class FileSelection:
    """Files to search. With ``only`` None: all indexed files except those in ``without``."""

    only: frozenset[str] | None = None
    without: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        return self.only is not None and not self.only - self.without


EVERY_FILE = FileSelection()


@dataclass(frozen=True, slots=True)
class Query:
    """A search query. ``vector`` is None for a keyword search; keywords come from ``text``."""

    text: str
    vector: Vector | None
    mode: Mode
    top_k: int
    files: FileSelection = EVERY_FILE

    @property
    def depth(self) -> int:
        """Number of candidates from each search method."""
        return max(_LEAST_DEPTH, 3 * self.top_k) if self.mode == "hybrid" else self.top_k


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the best chunks by meaning or by words. A score is None if the engine didn't compute it."""

    key: ChunkKey
    position: int
    cosine: float | None
    words: float | None
    """BM25, relative to a chunk with only common words that repeats every query word."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result. ``score`` is 0 to 1, comparable only within one response."""

    chunk_id: str
    file_id: str
    text: str
    score: float
    start: int
    end: int
    page: int | None = None
    row: int | None = None


class Searching(Protocol):
    """Searches one index."""

    async def candidates(self, query: Query) -> list[Candidate]:
        """The best ``query.depth`` chunks by each search method of the mode, unordered."""

    async def hits(self, scores: Mapping[ChunkKey, float]) -> list[Hit]:
        """These chunks with their scores, in this order, without chunks deleted since the search."""


class Engine(Protocol):
    """Stores chunks in independent indexes.

    Names, tags, collections and statuses of files aren't in the index: the caller resolves them to a ``FileSelection``.
    So their changes apply immediately and write nothing here. Every method raises ``EngineUnavailable`` if the engine
    doesn't answer.
    """

    @property
    def name(self) -> str: ...

    async def create_index(self, index_id: str, dimensions: int) -> None:
        """Creates an empty index; leaves an existing one unchanged."""

    async def drop_index(self, index_id: str) -> None:
        """Removes the index with its content, if it exists."""

    async def existing(self, index_ids: Sequence[str]) -> set[str]:
        """The given indexes that exist."""

    async def write(self, index_id: str, chunks: Sequence[IndexedChunk]) -> None:
        """Adds chunks of any number of files.

        Idempotent by (file, chunk id). A failure may leave some chunks written; writing all of them again completes the
        set without duplicates. Pass some hundreds per call. Raises ``IndexMissing``, and ``ValueError`` for a vector of
        another length.
        """

    async def finish(self, index_id: str) -> None:
        """Builds structures that pay off only in bulk (graph, statistics), at the end of a run.

        Call it at the end of every run, before switching to a new index, and after deletions. It is idempotent, cheap
        after small changes, and takes minutes after a large run. Searches continue during the call. Before the call,
        results are correct too, but slower and ranked with rougher statistics. Raises ``IndexMissing``.
        """

    async def delete_files(self, index_id: str, file_ids: Sequence[str]) -> None:
        """Removes all chunks of the files. Missing files or a missing index aren't errors."""

    async def count(self, index_id: str) -> int:
        """Number of chunks. Raises ``IndexMissing``."""

    async def chunk_ids(self, index_id: str, file_id: str) -> list[str]:
        """Chunk ids of one file, by position. Raises ``IndexMissing``."""

    def searching(self, index_id: str) -> AbstractAsyncContextManager[Searching]:
        """Keeps one connection until it exits. Raises ``IndexMissing``."""

    async def ping(self) -> None:
        """Raises ``EngineUnavailable`` if the engine doesn't answer."""

    async def close(self) -> None: ...


Engines = Mapping[str, Engine]
"""The engines of this installation by name."""
