"""API keys and their rotation."""

from typing import Any, ClassVar, Final

from pydantic import BaseModel, Field

from libs.contracts.credentials import Moment, ScopeName, SortedScopes
from libs.contracts.messages import Event
from libs.contracts.models import StrictModel
from libs.contracts.pages import ListPage
from libs.contracts.timestamps import Timestamp

EXAMPLE_ENVELOPE: Final = {"subject": "key_id"}
# At least as long as gateways cache keys, since they accept cached keys.
SHORTEST_GRACE_SECONDS: Final = 60
LONGEST_GRACE_SECONDS: Final = 30 * 24 * 3600


class CreateKeyBody(StrictModel):
    """The body of ``POST /api-keys/``. ``scopes`` defaults to the creator's scopes, except installation scopes."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "reader": {
            "name": "dashboard",
            "scopes": ["agents:read", "sessions:read"],
            "expires_at": "2031-01-31T00:00:00Z",
        }
    }

    name: str = Field(default="", max_length=200)
    scopes: list[ScopeName] | None = Field(default=None, min_length=1, max_length=50)
    expires_at: Moment | None = Field(
        default=None, description="A future time at which the key expires. Defaults to 90 days from now."
    )
    rate_limit: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Requests per minute. Defaults to the creator's rate limit, which is also the maximum.",
    )


class RotateKeyBody(StrictModel):
    """The body of ``POST /api-keys/{id}/rotate/``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"one hour of overlap": {"grace_seconds": 3600}}

    expires_at: Moment | None = Field(
        default=None, description="When the new key expires. By default, the new key gets the old key's lifetime."
    )
    grace_seconds: int = Field(
        default=86_400,
        ge=SHORTEST_GRACE_SECONDS,
        le=LONGEST_GRACE_SECONDS,
        description="How long the old key stays valid.",
    )


class Key(BaseModel):
    """An API key. ``prefix`` is the start of its secret.

    ``rate_limit`` is in requests per minute; ``null`` means unlimited.
    """

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
    """A new API key with its secret, which is shown only once."""

    secret: str


class KeyPage(ListPage):
    api_keys: list[Key]


class ApiKeyCreated(Event, type="aes.gateway.api_key.created.v1"):
    """An API key was created.

    After a rotation, ``replaces`` is the ID of the old key, which expires after the grace period.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "rotation": {"prefix": "aes_k3Vd", "replaces": "01980f4e-2d10-7a83-b2c4-5d6e7f8091a3"}
    }

    key_id: str
    prefix: str
    user_id: str
    replaces: str | None = None


class ApiKeyRevoked(Event, type="aes.gateway.api_key.revoked.v1"):
    """An API key was revoked. Every gateway removes it from its cache."""

    key_id: str
