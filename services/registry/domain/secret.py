"""Stored secrets. This service can't decrypt them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from libs.contracts.errors import NotFound
from libs.contracts.resources.secrets import Secret
from libs.contracts.timestamps import format_time

MOST_SECRETS: Final = 200
"""The maximum number of secrets per company."""


class SecretNotFound(NotFound):
    """The caller's company has no secret with this name."""

    def __init__(self) -> None:
        super().__init__("There is no secret with this name.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """A secret without its ciphertext. Times have a time zone."""

    id: str
    name: str
    created_at: datetime
    updated_at: datetime

    def public(self) -> Secret:
        return Secret(name=self.name, created_at=format_time(self.created_at), updated_at=format_time(self.updated_at))
