"""The port for embedding models."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from libs.contracts.errors import ServiceUnavailable

Vectors = npt.NDArray[np.float32]
"""A matrix with one row per text. Each row is a vector of length 1."""


class EmbeddingRefused(Exception):
    """The configuration is invalid or the text can't be embedded. A retry won't help."""


class EmbeddingUnavailable(ServiceUnavailable):
    """The model didn't respond. A retry may help."""


class DimensionsMismatch(EmbeddingRefused):
    """The model's vectors have a different number of dimensions than the configuration or the index."""


class Embedder(Protocol):
    """An embedding model. Calls may run in parallel, and never block the event loop."""

    @property
    def model(self) -> str:
        """The provider and model, such as ``wordllama:l2_supercat``. Vectors are comparable if these are the same."""

    @property
    def dimensions(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns a vector for each of the ``texts``, in order. Safe to retry.

        Raises ``EmbeddingRefused`` if a text has no content, ``EmbeddingUnavailable`` after the adapter's own retries,
        and ``DimensionsMismatch``.
        """


class Embedders(Protocol):
    """Provides the configured embedding models."""

    async def embedder(self, provider: str, model: str, dimensions: int | None) -> Embedder:
        """Returns the embedding model. If ``dimensions`` is None, the number is determined with a request to the model.

        Raises ``EmbeddingRefused``, with a message for the caller, if the provider, model or dimensions aren't
        supported.
        """
