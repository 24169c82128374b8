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
    """The index was dropped or never created. A late write to a dropped index raises this and leaves nothing."""


class EngineUnavailable(ServiceUnavailable):
    """The engine did not answer; the same call may succeed later."""


class EngineConflict(Exception):
    """The call met other writers at every one of its attempts. Counts as a failed attempt, not as an outage."""


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk as it is indexed. ``start`` and ``end`` are offsets into the document's text, in characters.

    ``terms`` None: an engine that needs them counts them itself.
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
    """Files to search. ``only`` None: all indexed files but those in ``without``."""

    only: frozenset[str] | None = None
    without: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        return self.only is not None and not self.only - self.without


EVERY_FILE = FileSelection()


@dataclass(frozen=True, slots=True)
class Query:
    """``vector`` is None for a keyword search; keywords are taken from ``text``."""

    text: str
    vector: Vector | None
    mode: Mode
    top_k: int
    files: FileSelection = EVERY_FILE

    @property
    def depth(self) -> int:
        """Number of candidates that each way of searching contributes."""
        return max(_LEAST_DEPTH, 3 * self.top_k) if self.mode == "hybrid" else self.top_k


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk among the best by meaning or by words. A score is None where the engine did not compare it that way."""

    key: ChunkKey
    position: int
    cosine: float | None
    words: float | None
    """BM25, where 1 is a chunk with common words alone that repeats all of the query's."""


@dataclass(frozen=True, slots=True)
class Hit:
    """``score`` is 0 to 1, comparable within one answer only."""

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
        """The best ``query.depth`` chunks by meaning, by words or by either, as the mode says. In no order."""

    async def hits(self, scores: Mapping[ChunkKey, float]) -> list[Hit]:
        """These chunks with their scores, in this order, without those deleted meanwhile."""


class Engine(Protocol):
    """Holds chunks in independent indexes.

    The index has no names, tags, collections or statuses of files: the caller resolves them to a ``FileSelection``.
    Changing them takes effect at once and writes nothing here. Every method raises ``EngineUnavailable`` when the
    engine doesn't answer.
    """

    @property
    def name(self) -> str: ...

    async def create_index(self, index_id: str, dimensions: int) -> None:
        """Creates an empty index; an existing one is left as it is."""

    async def drop_index(self, index_id: str) -> None:
        """Removes the index with its content, if it exists."""

    async def existing(self, index_ids: Sequence[str]) -> set[str]:
        """Indexes among these that exist."""

    async def write(self, index_id: str, chunks: Sequence[IndexedChunk]) -> None:
        """Adds chunks of any number of files.

        Idempotent by (file, chunk id). After a failure some may have been written: writing all of them again
        ends with each of them once. Best called with some hundreds at a time. Raises ``IndexMissing``. A vector
        of another length is a ``ValueError``.
        """

    async def finish(self, index_id: str) -> None:
        """Builds what pays off only in bulk (graph, statistics), at the end of a run.

        To be called once at the end of every run, before a new index is switched to, and after deletions.
        Idempotent; cheap when little has changed, up to minutes after a large run. Searches go on meanwhile
        and are right before it too, only slower and ranked by rougher statistics. Raises ``IndexMissing``.
        """

    async def delete_files(self, index_id: str, file_ids: Sequence[str]) -> None:
        """Removes every chunk of the files; missing files or a missing index are fine."""

    async def count(self, index_id: str) -> int:
        """Number of chunks. Raises ``IndexMissing``."""

    async def chunk_ids(self, index_id: str, file_id: str) -> list[str]:
        """Chunk ids of one file, in the order of their positions. Raises ``IndexMissing``."""

    def searching(self, index_id: str) -> AbstractAsyncContextManager[Searching]:
        """Keeps one connection until it exits. Raises ``IndexMissing``."""

    async def ping(self) -> None:
        """Raises ``EngineUnavailable``."""

    async def close(self) -> None: ...


Engines = Mapping[str, Engine]
"""The engines of this installation by name."""
