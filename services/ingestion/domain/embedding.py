"""Port of embedding models."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from libs.contracts.errors import ServiceUnavailable

Vectors = npt.NDArray[np.float32]
"""One row per text, each of length 1."""


class EmbeddingRefused(Exception):
    """The configuration or the text can never be embedded."""


class EmbeddingUnavailable(ServiceUnavailable):
    """The model didn't answer; a retry may succeed."""


class DimensionsMismatch(EmbeddingRefused):
    """The length of the model's vectors differs from the configuration or the index."""


class Embedder(Protocol):
    """One model. Calls may run in parallel and don't block the event loop."""

    @property
    def model(self) -> str:
        """Provider and model, e.g. ``wordllama:l2_supercat``; vectors of the same name are comparable."""

    @property
    def dimensions(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors in the order of ``texts``. Safe to repeat.

        Raises ``EmbeddingRefused`` for a text without content, which no vector can represent. Raises
        ``EmbeddingUnavailable`` after the adapter's own retries, and ``DimensionsMismatch``.
        """


class Embedders(Protocol):
    """Configured embedding models."""

    async def embedder(self, provider: str, model: str, dimensions: int | None) -> Embedder:
        """Returns the model. Without ``dimensions``, asks the model for them.

        Raises ``EmbeddingRefused`` with a message for the caller if provider, model or dimensions aren't supported.
        """
