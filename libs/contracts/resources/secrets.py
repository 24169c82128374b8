"""Secrets, which toolsets send in the headers of their requests."""

from typing import Any, ClassVar, Final

from pydantic import BaseModel, Field

from libs.contracts.messages import Command, Event
from libs.contracts.models import StrictModel
from libs.contracts.pages import ListPage
from libs.contracts.timestamps import Timestamp

EXAMPLE_ENVELOPE: Final = {"owner_id": None, "subject": "01980f62-4a10-7b21-8d3e-5c6d7e8f9a0b"}
NAME_PATTERN: Final = r"[A-Za-z][A-Za-z0-9_-]{0,63}"


def secret_context(company_id: str, name: str) -> str:
    """Returns the only context in which a secret's ciphertext can be decrypted."""
    return f"secrets/{company_id}/{name}"


class PutSecretBody(StrictModel):
    """The body of ``PUT /secrets/{name}/``. The value is sent in request headers, so it must be printable ASCII."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"a token": {"value": "the ticket office's token"}}

    value: str = Field(min_length=1, max_length=8_000, pattern=r"^[\x20-\x7e]+$", repr=False)


class Secret(BaseModel):
    """A secret without its value, which can't be retrieved."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "the ticket office's secret": {
            "name": "TICKETS_TOKEN",
            "created_at": "2026-05-04T08:19:40.900000Z",
            "updated_at": "2026-05-04T08:19:40.900000Z",
        }
    }

    name: str
    created_at: Timestamp
    updated_at: Timestamp


class SecretPage(ListPage):
    secrets: list[Secret]


class SecretStored(Event, type="aes.registry.secret.stored.v1"):
    """A secret was created, or its value was replaced. Messages never contain the value."""

    secret: Secret


class SecretDeleted(Event, type="aes.registry.secret.deleted.v1"):
    """A secret was deleted."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"the ticket office's secret": {"name": "TICKETS_TOKEN"}}

    name: str


class PutSecret(Command, type="aes.registry.put_secret.v1", outcomes=(SecretStored,)):
    """Create a secret or replace its value. ``ciphertext`` is base64 and bound to ``secret_context``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a token": {"name": "TICKETS_TOKEN", "ciphertext": "AQ3t7Q2pY0d9c4bJm1N5a2V5aWRub25jZWNpcGhlcnRleHQ="}
    }

    name: str = Field(pattern=f"^{NAME_PATTERN}$")
    ciphertext: str


class DeleteSecret(Command, type="aes.registry.delete_secret.v1", outcomes=(SecretDeleted,)):
    """Delete a secret."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"the ticket office's secret": {"name": "TICKETS_TOKEN"}}

    name: str
