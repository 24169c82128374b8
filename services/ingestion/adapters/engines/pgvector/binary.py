"""Encodes chunks in the binary format of COPY."""

from struct import Struct

import numpy as np

from services.ingestion.adapters.engines.analysis import NUMBER_OF_TERMS
from services.ingestion.adapters.engines.bm25 import TermWeights
from services.ingestion.adapters.engines.pgvector.selective_words import with_levels
from services.ingestion.domain.engines import IndexedChunk, Vector

COLUMNS = (
    "file_id, id, position, start_offset, end_offset, page, row_number, length, average_length,"
    " embedding, weights, terms, content"
)
HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
_FIELDS = Struct(">h").pack(13)
_NULL = b"\xff\xff\xff\xff"
_INT4_OID = 23
_integer = Struct(">ii")
_length = Struct(">i")
_real = Struct(">f")
_array_head = Struct(">iiiii")
_sparse_head = Struct(">iii")
_dense_head = Struct(">hh")


def row_of(indexed: IndexedChunk, weights: TermWeights, length: int, average_length: float) -> bytes:
    chunk = indexed.chunk
    return b"".join(
        (
            _FIELDS,
            _sized(indexed.file_id.encode()),
            _sized(chunk.id.encode()),
            *(_number(each) for each in (chunk.index, chunk.start, chunk.end, chunk.page, chunk.row)),
            _number(length),
            _sized(_real.pack(average_length)),
            _sized(_dense(indexed.vector)),
            _sized(_sparse(weights)),
            _sized(_elements(with_levels(weights))),
            _sized(storable(chunk.text).encode()),
        )
    )


def storable(text: str) -> str:
    """Replaces NUL and unpaired surrogates, which PostgreSQL rejects. Character offsets remain valid."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def dense_literal(vector: Vector) -> str:
    return "[" + ",".join(map(repr, vector.tolist())) + "]"


def sparse_literal(weights: TermWeights) -> str:
    pairs = zip(weights.terms.tolist(), weights.weights.tolist(), strict=True)
    return "{" + ",".join(f"{term + 1}:{weight!r}" for term, weight in pairs) + "}/" + str(NUMBER_OF_TERMS)


def sparse_from(value: bytes) -> TermWeights:
    """Decodes a sparsevec from its binary form."""
    _, count, _ = _sparse_head.unpack_from(value)
    terms = np.frombuffer(value, ">i4", count, _sparse_head.size)
    weights = np.frombuffer(value, ">f4", count, _sparse_head.size + terms.nbytes)
    return TermWeights(terms.astype(np.int32), weights.astype(np.float32))


def _sized(value: bytes) -> bytes:
    return _length.pack(len(value)) + value


def _number(value: int | None) -> bytes:
    return _NULL if value is None else _integer.pack(4, value)


def _dense(vector: Vector) -> bytes:
    return _dense_head.pack(len(vector), 0) + vector.astype(">f2").tobytes()


def _sparse(weights: TermWeights) -> bytes:
    head = _sparse_head.pack(NUMBER_OF_TERMS, len(weights.terms), 0)
    return head + weights.terms.astype(">i4").tobytes() + weights.weights.astype(">f4").tobytes()


def _elements(terms: np.ndarray[tuple[int], np.dtype[np.int32]]) -> bytes:
    if not len(terms):
        return _sparse_head.pack(0, 0, _INT4_OID)
    pairs = np.empty((len(terms), 2), ">i4")
    pairs[:, 0], pairs[:, 1] = 4, terms
    return _array_head.pack(1, 0, _INT4_OID, len(terms), 1) + pairs.tobytes()
