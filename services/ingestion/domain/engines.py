"""Port for search engines."""

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
"""The IDs of a file and of one of its chunks."""
_LEAST_DEPTH: Final = 100


class IndexMissing(Exception):
    """The index was dropped or never created. A late write to a dropped index raises this and writes nothing."""


class EngineUnavailable(ServiceUnavailable):
    """The engine didn't respond. A retry may succeed."""


class EngineConflict(Exception):
    """All attempts conflicted with other writers. This counts as a failed attempt, not as an outage."""


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
    """Selects files to search. If ``only`` is None, selects all indexed files except those in ``without``."""

    only: frozenset[str] | None = None
    without: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        return self.only is not None and not self.only - self.without


EVERY_FILE = FileSelection()


@dataclass(frozen=True, slots=True)
class Query:
    """A search query. ``vector`` is None for a keyword search. Keywords come from ``text``."""

    text: str
    vector: Vector | None
    mode: Mode
    top_k: int
    files: FileSelection = EVERY_FILE

    @property
    def depth(self) -> int:
        """Returns the number of candidates per search method."""
        return max(_LEAST_DEPTH, 3 * self.top_k) if self.mode == "hybrid" else self.top_k


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the best chunks by meaning or by words. A score is None if the engine didn't compute it."""

    key: ChunkKey
    position: int
    cosine: float | None
    words: float | None
    """BM25 score relative to that of a chunk that repeats every query word, if all words were common."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result. ``score`` is between 0 and 1 and only comparable within one response."""

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
        """Returns the best ``query.depth`` chunks of each search method in the query's mode, unordered."""

    async def hits(self, scores: Mapping[ChunkKey, float]) -> list[Hit]:
        """Returns these chunks with their scores in the given order. Skips chunks deleted since the search."""


class Engine(Protocol):
    """Stores chunks in independent indexes.

    An index doesn't contain the names, tags, collections or statuses of files: callers resolve them to a
    ``FileSelection``. So their changes apply immediately and don't need a write to the index. Every method raises
    ``EngineUnavailable`` if the engine doesn't respond.
    """

    @property
    def name(self) -> str: ...

    async def create_index(self, index_id: str, dimensions: int) -> None:
        """Creates an empty index. Leaves an existing one unchanged."""

    async def drop_index(self, index_id: str) -> None:
        """Deletes the index and its content, if it exists."""

    async def existing(self, index_ids: Sequence[str]) -> set[str]:
        """Returns the given indexes that exist."""

    async def write(self, index_id: str, chunks: Sequence[IndexedChunk]) -> None:
        """Adds chunks of any number of files.

        Idempotent by file and chunk ID. A failure may leave some chunks written. Writing all of them again completes
        the set without duplicates. Pass a few hundred chunks per call. Raises ``IndexMissing``, and ``ValueError`` for
        a vector of the wrong length.
        """

    async def finish(self, index_id: str) -> None:
        """Builds structures that only pay off in bulk, such as the graph and statistics.

        Call it at the end of every run, before switching to a new index, and after deletions. It's idempotent. It's
        cheap after small changes but takes minutes after a large run. Searches continue during the call. Without the
        call, results are correct, but searches are slower and rank with less accurate statistics. Raises
        ``IndexMissing``.
        """

    async def delete_files(self, index_id: str, file_ids: Sequence[str]) -> None:
        """Deletes all chunks of the files. Ignores missing files and a missing index."""

    async def count(self, index_id: str) -> int:
        """Returns the number of chunks. Raises ``IndexMissing``."""

    async def chunk_ids(self, index_id: str, file_id: str) -> list[str]:
        """Returns the chunk IDs of one file, by position. Raises ``IndexMissing``."""

    def searching(self, index_id: str) -> AbstractAsyncContextManager[Searching]:
        """Opens the index for searches. Holds one connection until it exits. Raises ``IndexMissing``."""

    async def ping(self) -> None:
        """Raises ``EngineUnavailable`` if the engine doesn't respond."""

    async def close(self) -> None: ...


Engines = Mapping[str, Engine]
"""This installation's engines by name."""
