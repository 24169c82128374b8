"""API keys."""

from typing import Any, ClassVar

from pydantic import BaseModel, Field

from libs.contracts.credentials import Moment, ScopeName, SortedScopes
from libs.contracts.messages import Event
from libs.contracts.models import StrictModel
from libs.contracts.pages import ListPage
from libs.contracts.timestamps import Timestamp


class CreateKeyBody(StrictModel):
    """``POST /api-keys/``. Without ``scopes`` the key may do what its maker may."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "reader": {
            "name": "dashboard",
            "scopes": ["agents:read", "sessions:read"],
            "expires_at": "2031-01-31T00:00:00Z",
        }
    }

    name: str = Field(default="", max_length=200)
    scopes: list[ScopeName] | None = Field(default=None, min_length=1, max_length=50)
    expires_at: Moment | None = Field(default=None, description="In the future; 90 days from now when left out.")
    rate_limit: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Requests a minute, at most the maker's own, which is the default.",
    )


class RotateKeyBody(StrictModel):
    """``POST /api-keys/{id}/rotate/``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"an hour of both": {"grace_seconds": 3600}}

    expires_at: Moment | None = Field(
        default=None, description="Of the new key; it lives as long as the old one when left out."
    )
    # Not shorter than a key is cached: the old key's end is only known for sure after that time.
    grace_seconds: int = Field(
        default=86_400, ge=60, le=2_592_000, description="How long the old key stays valid beside the new one."
    )


class Key(BaseModel):
    """An API key. ``prefix`` is how its secret begins; ``rate_limit`` counts requests a minute, null for no limit."""

    id: str
    name: str
    prefix: str
    scopes: SortedScopes
    user_id: str
    rate_limit: int | None
    created_at: Timestamp
    expires_at: Timestamp | None
    revoked_at: Timestamp | None
    successor_id: str | None


class IssuedKeyReply(Key):
    """A new key with its secret, which is shown this once."""

    secret: str


class KeyPage(ListPage):
    api_keys: list[Key]


class ApiKeyCreated(Event, type="aes.gateway.api_key.created.v1"):
    """``replaces``: the key that it was made from by a rotation, which ends after its grace."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "by a rotation": {"prefix": "aes_k3Vd", "replaces": "01980f4e-2d10-7a83-b2c4-5d6e7f8091a3"}
    }

    key_id: str
    prefix: str
    user_id: str
    replaces: str | None = None


class ApiKeyRevoked(Event, type="aes.gateway.api_key.revoked.v1"):
    """A key was revoked. Every gateway replica removes it from its cache."""

    key_id: str
