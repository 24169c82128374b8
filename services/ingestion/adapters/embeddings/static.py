"""Embeds texts offline with wordllama, which averages the vectors of word pieces."""

import asyncio
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from services.ingestion.domain.embedding import EmbeddingRefused, Vectors

PROVIDER = "wordllama"
MODEL = "l2_supercat"
DIMENSIONS = (64, 128, 256)
# Matches a word, a number, line ends or symbols, with the preceding spaces. Each match is tokenized once and cached,
# which saves most of the time. This works because no vocabulary piece crosses the end of a match. Outside ASCII, a
# piece may combine letters and symbols.
_RUNS = re.compile(
    r" *(?:[A-Za-z]++(?![^\x00-\x7f])|[0-9]{1,3}(?![^\x00-\x7f])|\n+"
    r"|[\x00-\x09\x0b-\x1f!-/:-@\[-`{-~\x7f]++(?![^\x00-\x7f])|[^ \n]+)| +"
)
_LONGEST_REMEMBERED = 64
_REMEMBERED = 200_000
# This limits memory to a few dozen megabytes, however long a text is.
_PIECES_AT_ONCE = 20_000
Pieces = npt.NDArray[np.intp]


class StaticEmbedder:
    """Implements Embedder with wordllama. The model is loaded on first use."""

    def __init__(self, dimensions: int = DIMENSIONS[-1]) -> None:
        if dimensions not in DIMENSIONS:
            known = ", ".join(map(str, DIMENSIONS))
            raise EmbeddingRefused(f"The embedding provider {PROVIDER} supports {known} dimensions, not {dimensions}.")
        self.dimensions = dimensions
        self.model = f"{PROVIDER}:{MODEL}"

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await asyncio.to_thread(self.embed_here, texts)

    def embed_here(self, texts: Sequence[str]) -> Vectors:
        """Embeds texts in the calling thread."""
        pieces = _pieces()
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        for position, text in enumerate(texts):
            vectors[position] = self._average(pieces.vectors, pieces.of(text))
        return vectors

    def _average(self, known: Vectors, pieces: Pieces) -> Vectors:
        total = np.zeros(self.dimensions, np.float32)
        for start in range(0, len(pieces), _PIECES_AT_ONCE):
            total += known.take(pieces[start : start + _PIECES_AT_ONCE], axis=0)[:, : self.dimensions].sum(axis=0)
        length = float(np.linalg.norm(total))
        if not length:
            raise EmbeddingRefused("Blank text can't be embedded.")
        return total / length


class _Pieces:
    """Splits texts into word pieces and caches them. Thread-safe."""

    def __init__(self, vectors: Vectors, tokenizer: Any) -> None:
        self.vectors = vectors
        self._tokenizer = tokenizer
        self._remembered: dict[str, bytes] = {}

    def of(self, text: str) -> Pieces:
        # The model's tokenizer starts every text with a space.
        runs = _RUNS.findall(" " + text) if text.strip() else []
        remembered = self._remembered
        found = list(map(remembered.get, runs))
        if None in found:
            missing = [run for run, pieces in zip(runs, found, strict=True) if pieces is None]
            learnt = dict(zip(missing, self._cut(missing), strict=True))
            found = [learnt[run] if pieces is None else pieces for run, pieces in zip(runs, found, strict=True)]
            if len(remembered) > _REMEMBERED:
                self._remembered = {}
            self._remembered.update((run, cut) for run, cut in learnt.items() if len(run) <= _LONGEST_REMEMBERED)
        return np.frombuffer(b"".join(found), np.intp)  # type: ignore[arg-type]

    def _cut(self, runs: list[str]) -> list[bytes]:
        return [
            np.array(each.ids, np.intp).tobytes()
            for each in self._tokenizer.encode_batch_fast(runs, add_special_tokens=False)
        ]


@lru_cache(maxsize=1)
def _pieces() -> _Pieces:
    with _logging_untouched():
        from tokenizers import normalizers
        from wordllama import WordLlama  # type: ignore[import-untyped]

    package = find_spec("wordllama")
    assert package is not None
    assert package.origin is not None
    model = WordLlama.load(cache_dir=Path(package.origin).parent, disable_download=True)
    model.tokenizer.no_padding()
    # Don't add a leading space, since each run includes its own.
    model.tokenizer.normalizer = normalizers.Replace(" ", "▁")
    return _Pieces(model.embedding, model.tokenizer)


@contextmanager
def _logging_untouched() -> Iterator[None]:
    """Restores the root logger's configuration at the end of the block, because importing wordllama changes it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
