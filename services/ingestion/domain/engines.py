"""The port for search engines."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

from libs.contracts.errors import ServiceUnavailable
from services.ingestion.domain.documents import Chunk

Vector = npt.NDArray[np.float32]
Mode = Literal["hybrid", "semantic", "keyword"]
ChunkKey = tuple[str, str]
"""The IDs of a file and of one of its chunks."""
_LEAST_DEPTH: Final = 100


class IndexMissing(Exception):
    """The index was dropped or never created."""


class EngineUnavailable(ServiceUnavailable):
    """The engine didn't respond. A retry may help."""


class EngineConflict(Exception):
    """Every attempt conflicted with another writer. This counts as a failed attempt, not as an outage."""


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk to be indexed. If ``chunk.terms`` is None, an engine that needs the counts computes them itself."""

    file_id: str
    chunk: Chunk
    vector: Vector

    @property
    def key(self) -> ChunkKey:
        return self.file_id, self.chunk.id


@dataclass(frozen=True, slots=True)
class FileSelection:
    """Selects the files to search: those in ``only`` (or all if it's None), except those in ``without``."""

    only: frozenset[str] | None = None
    without: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        return self.only is not None and not self.only - self.without


EVERY_FILE = FileSelection()


@dataclass(frozen=True, slots=True)
class Query:
    """A search query. ``vector`` is None for a keyword search."""

    text: str
    vector: Vector | None
    mode: Mode
    top_k: int
    files: FileSelection = EVERY_FILE

    @property
    def depth(self) -> int:
        """The number of candidates that each search method returns."""
        return max(_LEAST_DEPTH, 3 * self.top_k) if self.mode == "hybrid" else self.top_k


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the chunks that match best, by meaning or by words. A score that the engine didn't compute is None."""

    key: ChunkKey
    position: int
    cosine: float | None
    words: float | None
    """The BM25 score, divided by the maximum score that the query would have if all of its words were common."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result. ``score`` ranges from 0 to 1, and is only comparable within one response."""

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
        """Returns the ``query.depth`` best chunks of each search method in the query's mode, in any order."""

    async def hits(self, scores: Mapping[ChunkKey, float]) -> list[Hit]:
        """Returns these chunks as results, in the order of ``scores``. Chunks deleted since the search are skipped."""


class Engine(Protocol):
    """Stores and searches chunks. Every method raises ``EngineUnavailable`` if the engine doesn't respond.

    Indexes don't contain files' names, tags, collections or statuses, so changes to these apply immediately.
    """

    @property
    def name(self) -> str: ...

    async def create_index(self, index_id: str, dimensions: int) -> None:
        """Creates an empty index. An existing index stays unchanged."""

    async def drop_index(self, index_id: str) -> None:
        """Deletes the index and its content, if it exists."""

    async def existing(self, index_ids: Sequence[str]) -> set[str]:
        """Returns the indexes that exist."""

    async def write(self, index_id: str, chunks: Sequence[IndexedChunk]) -> None:
        """Adds chunks. Safe to repeat. Raises ``IndexMissing``, or ``ValueError`` if a vector has the wrong length."""

    async def finish(self, index_id: str) -> None:
        """Updates statistics, and builds structures that make searches faster. Safe to repeat.

        Call this at the end of every run, before switching to a new index, and after deletions. After a large run, the
        call takes minutes, but searches continue. Raises ``IndexMissing``.
        """

    async def delete_files(self, index_id: str, file_ids: Sequence[str]) -> None:
        """Deletes all chunks of the files. Missing files and a missing index are ignored."""

    async def count(self, index_id: str) -> int:
        """Returns the number of chunks in the index. Raises ``IndexMissing``."""

    def searching(self, index_id: str) -> AbstractAsyncContextManager[Searching]:
        """Opens the index for searches. The context holds one connection. Raises ``IndexMissing``."""

    async def close(self) -> None: ...


Engines = Mapping[str, Engine]
"""The engines of this installation, by name."""
