"""Parsed documents and their chunks."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

import orjson

from libs.contracts.resources.knowledge_bases import ChunkingStrategy

if TYPE_CHECKING:
    # NumPy isn't imported at run time, since processes that only parse don't need it.
    import numpy as np
    import numpy.typing as npt


_CHUNKS = UUID("0b0d8a52-6c0f-5f4e-9d4c-8f1f6a3e2c71")


@dataclass(frozen=True, slots=True)
class Segment:
    """A page or row of a document, numbered from 1, with its character range in the text.

    The end is exclusive. For a row of a workbook, ``page`` is the sheet's number.
    """

    text_start: int
    text_end: int
    page: int | None = None
    row: int | None = None


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """The text of a file. Segments are in order and don't overlap. Formats without pages or rows have no segments."""

    text: str
    segments: tuple[Segment, ...] = ()

    def to_bytes(self) -> bytes:
        """Encodes the document for storage, as a line of JSON followed by the text in UTF-8."""
        head = {"segments": [(s.text_start, s.text_end, s.page, s.row) for s in self.segments]}
        return orjson.dumps(head) + b"\n" + self.text.encode()

    @classmethod
    def from_bytes(cls, stored: bytes) -> ParsedDocument:
        end = stored.index(b"\n")
        head = orjson.loads(stored[:end])
        return cls(str(memoryview(stored)[end + 1 :], "utf-8"), tuple(Segment(*s) for s in head["segments"]))


@dataclass(frozen=True, slots=True)
class TermCounts:
    """The number of times each term occurs in a chunk, sorted by term number. `length` is the sum of the counts."""

    numbers: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    length: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of a document. `start` and `end` are character offsets in the parsed text. `index` counts from 0.

    `page` and `row` are where the chunk starts. `vector` and `terms` may be computed by the parsing process.
    """

    id: str
    index: int
    text: str
    start: int
    end: int
    page: int | None = None
    row: int | None = None
    vector: npt.NDArray[np.float32] | None = field(default=None, compare=False, repr=False)
    terms: TermCounts | None = field(default=None, compare=False, repr=False)


def namespace_of(source: str, strategy: ChunkingStrategy) -> UUID:
    """Returns the namespace of chunk IDs. The same source and settings always result in the same namespace."""
    settings = sha256(orjson.dumps(strategy.model_dump(), option=orjson.OPT_SORT_KEYS)).hexdigest()
    return uuid5(_CHUNKS, f"{source}/{settings}")
