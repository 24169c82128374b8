"""What the service asks of a search engine, and what both of them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from services.ingestion.domain.documents import TermCounts

Vector = npt.NDArray[np.float32]
Mode = Literal["hybrid", "semantic", "keyword"]


class IndexMissing(Exception):
    """The index was dropped or never made. A late write to a dropped index ends like this and leaves nothing."""


class EngineUnavailable(Exception):
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
    """Of the chunk in its file, from 0."""
    text: str
    vector: Vector
    start: int
    end: int
    page: int | None = None
    row: int | None = None
    terms: TermCounts | None = None


@dataclass(frozen=True, slots=True)
class FileSelection:
    """Which files a search looks at. ``only`` None: all that are indexed, but those in ``without``."""

    only: frozenset[str] | None = None
    without: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        return self.only is not None and not self.only - self.without


EVERY_FILE = FileSelection()


@dataclass(frozen=True, slots=True)
class Query:
    """``vector`` may be None for a keyword search alone; ``text`` is what the keywords are taken from."""

    text: str
    vector: Vector | None
    mode: Mode
    top_k: int
    files: FileSelection = EVERY_FILE


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


class Engine(Protocol):
    """Holds chunks in indexes that know nothing of each other.

    Names, tags, collections and the status of files are not in the index: the caller resolves them to a
    ``FileSelection``, so that changing them takes effect at once and writes nothing here. Every method raises
    ``EngineUnavailable`` when the engine does not answer.
    """

    @property
    def name(self) -> str: ...

    async def create_index(self, index_id: str, dimensions: int) -> None:
        """Make an empty index; one that is there already is left as it is."""
        ...

    async def drop_index(self, index_id: str) -> None:
        """Remove the index with its content; one that is not there is fine."""
        ...

    async def existing(self, index_ids: Sequence[str]) -> set[str]:
        """Those of the indexes that are there, whatever is in them."""
        ...

    async def write(self, index_id: str, chunks: Sequence[IndexedChunk]) -> None:
        """Add chunks of any number of files.

        Idempotent by (file, chunk id). After a failure some may have been written: writing all of them again
        ends with each of them once. Best called with some hundreds at a time. Raises ``IndexMissing``. A vector
        of another length is a ``ValueError``.
        """
        ...

    async def finish(self, index_id: str) -> None:
        """Everything of a run is written: make what pays off only in bulk (graph, statistics).

        To be called once at the end of every run, before a new index is switched to, and after deletions.
        Idempotent; cheap when little has changed, up to minutes after a large run. Searches go on meanwhile
        and are right before it too, only slower and ranked by rougher statistics. Raises ``IndexMissing``.
        """
        ...

    async def delete_files(self, index_id: str, file_ids: Sequence[str]) -> None:
        """Remove every chunk of the files; files or an index that are not there are fine."""
        ...

    async def count(self, index_id: str) -> int:
        """Chunks in the index. Raises ``IndexMissing``."""
        ...

    async def chunk_ids(self, index_id: str, file_id: str) -> list[str]:
        """Those of one file, in the order of their positions. Raises ``IndexMissing``."""
        ...

    async def search(self, index_id: str, query: Query) -> list[Hit]:
        """At most ``query.top_k`` chunks, best first. Raises ``IndexMissing``."""
        ...

    async def ping(self) -> None:
        """Raises ``EngineUnavailable`` when the engine cannot be used now."""
        ...

    async def close(self) -> None: ...
