"""Tokens: short-lived credentials issued for an API key."""

from typing import Any, ClassVar, Final

from pydantic import BaseModel, Field

from libs.contracts.credentials import ScopeName, SortedScopes
from libs.contracts.models import StrictModel
from libs.contracts.timestamps import Timestamp

LONGEST_TOKEN_SECONDS: Final = 3600


class TokenBody(StrictModel):
    """The body of ``POST /auth/token/``. ``scopes`` defaults to the key's scopes."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"read artifacts": {"scopes": ["artifacts:read"], "expires_in": 900}}

    scopes: list[ScopeName] | None = Field(default=None, min_length=1, max_length=50)
    expires_in: int = Field(
        default=LONGEST_TOKEN_SECONDS, ge=60, le=LONGEST_TOKEN_SECONDS, description="The token's lifetime in seconds."
    )


class TokenReply(BaseModel):
    """A new bearer token, which isn't stored. It expires with its key, if not sooner."""

    access_token: str
    token_type: str = "Bearer"  # noqa: S105
    expires_in: int
    expires_at: Timestamp
    scopes: SortedScopes
