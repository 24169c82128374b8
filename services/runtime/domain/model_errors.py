"""What can go wrong with a model, told apart by what the caller should see. Messages hold no secret."""

from __future__ import annotations

from libs.contracts.errors import ModelFailed as _ModelFailed
from libs.contracts.errors import ValidationFailed


class ModelFailed(_ModelFailed):
    """The provider failed, after retries where they made sense. `status` is its HTTP status, if it had one."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class VisionNotSupported(ValidationFailed):
    """An image was given to a model that takes text only."""


class ModelUnknown(ValidationFailed):
    """The name is not `provider:name`, or the provider is none that this service knows."""


class ModelNotConfigured(ValidationFailed):
    """The provider is known but has no credentials here."""
