"""Port of embedding models."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from libs.contracts.errors import ServiceUnavailable

Vectors = npt.NDArray[np.float32]
"""One row for each text, each of length 1."""


class EmbeddingRefused(Exception):
    """The configuration or the text can never be embedded."""


class EmbeddingUnavailable(ServiceUnavailable):
    """The model did not answer; the same call may succeed later."""


class DimensionsMismatch(EmbeddingRefused):
    """The model's vectors have another length than the configuration or the index."""


class Embedder(Protocol):
    """One model. Calls may run at the same time; none blocks the event loop."""

    @property
    def model(self) -> str:
        """Provider and model, e.g. ``wordllama:l2_supercat``: vectors of equal names are comparable."""

    @property
    def dimensions(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors in the order of ``texts``. Safe to repeat.

        A text without any content is an ``EmbeddingRefused``, since no vector stands for it. Raises
        ``EmbeddingUnavailable`` after the adapter's own retries and ``DimensionsMismatch``.
        """


class Embedders(Protocol):
    """Configured embedding models."""

    async def embedder(self, provider: str, model: str, dimensions: int | None) -> Embedder:
        """Returns the model; without ``dimensions`` it is asked for them.

        An unknown provider or model, or dimensions that the model does not have, is an ``EmbeddingRefused``
        whose message is meant for the caller.
        """
