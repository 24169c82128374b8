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
        """The provider and model, such as ``wordllama:l2_supercat``. Only vectors of the same model are comparable."""

    @property
    def dimensions(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns a vector for each text, in order.

        Raises ``EmbeddingUnavailable`` and ``DimensionsMismatch``, and ``EmbeddingRefused`` if a text is blank.
        """


class Embedders(Protocol):
    """Provides the configured embedding models."""

    async def embedder(self, provider: str, model: str, dimensions: int | None) -> Embedder:
        """Returns the embedding model. If ``dimensions`` is None, the model's default applies.

        Raises ``EmbeddingUnavailable``, or ``EmbeddingRefused`` if the provider, model or dimensions aren't supported.
        """
