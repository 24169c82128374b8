"""Parsed documents and their chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

import orjson

from libs.contracts.resources.knowledge_bases import ChunkingStrategy

if TYPE_CHECKING:
    # Processes that only parse do without it.
    import numpy as np
    import numpy.typing as npt


_CHUNKS = UUID("0b0d8a52-6c0f-5f4e-9d4c-8f1f6a3e2c71")


@dataclass(frozen=True, slots=True)
class Segment:
    """A page or a row of a document: the half-open range of characters it takes up in the text, numbered from 1.

    A row of a workbook also has its sheet's number as the page.
    """

    text_start: int
    text_end: int
    page: int | None = None
    row: int | None = None


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A file's text. Segments are in order and do not overlap; there are none where the format has no pages or rows."""

    text: str
    segments: tuple[Segment, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Storage format: one line of JSON, then the text in UTF-8."""
        head = {
            "segments": [(s.text_start, s.text_end, s.page, s.row) for s in self.segments],
            "metadata": dict(self.metadata),
        }
        return orjson.dumps(head) + b"\n" + self.text.encode()

    @classmethod
    def from_bytes(cls, stored: bytes) -> ParsedDocument:
        end = stored.index(b"\n")
        head = orjson.loads(stored[:end])
        return cls(
            str(memoryview(stored)[end + 1 :], "utf-8"), tuple(Segment(*s) for s in head["segments"]), head["metadata"]
        )


@dataclass(frozen=True, slots=True)
class TermCounts:
    """Counts of terms, by number, in a chunk of `length` terms; sorted by number."""

    numbers: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    length: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of a document. `start` and `end` are characters of the parsed text; `index` counts from 0.

    `page` and `row` say where it begins. `vector` and `terms` are set when the parsing process made them.
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


def settings_hash(strategy: ChunkingStrategy) -> str:
    """Equal for equal settings."""
    return sha256(orjson.dumps(strategy.model_dump(), option=orjson.OPT_SORT_KEYS)).hexdigest()


class ChunkIds:
    """Deterministic ids: the same source cut in the same way gives the same ids."""

    def __init__(self, source: str, strategy: ChunkingStrategy) -> None:
        self._document = uuid5(_CHUNKS, f"{source}/{settings_hash(strategy)}")

    def of(self, index: int) -> str:
        return str(uuid5(self._document, str(index)))
