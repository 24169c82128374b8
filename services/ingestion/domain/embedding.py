"""Port for embedding models."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from libs.contracts.errors import ServiceUnavailable

Vectors = npt.NDArray[np.float32]
"""One row per text. Each row is a vector of length 1."""


class EmbeddingRefused(Exception):
    """The configuration is invalid or the text can't be embedded. A retry won't help."""


class EmbeddingUnavailable(ServiceUnavailable):
    """The model didn't respond. A retry may succeed."""


class DimensionsMismatch(EmbeddingRefused):
    """The length of the model's vectors differs from the configuration or the index."""


class Embedder(Protocol):
    """An embedding model. Calls may run in parallel and don't block the event loop."""

    @property
    def model(self) -> str:
        """Provider and model, e.g. ``wordllama:l2_supercat``. Vectors are comparable if their names are equal."""

    @property
    def dimensions(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns vectors in the order of ``texts``. Safe to repeat.

        Raises ``EmbeddingRefused`` for a text without content, ``EmbeddingUnavailable`` after the adapter's own
        retries, and ``DimensionsMismatch``.
        """


class Embedders(Protocol):
    """Provides the configured embedding models."""

    async def embedder(self, provider: str, model: str, dimensions: int | None) -> Embedder:
        """Returns the model. If ``dimensions`` is None, determines them with a request to the model.

        Raises ``EmbeddingRefused`` with a message for the caller if the provider, model or dimensions aren't supported.
        """
