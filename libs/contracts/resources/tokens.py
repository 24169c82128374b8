"""Tokens: short-lived credentials made with a key."""

from typing import Any, ClassVar, Final

from pydantic import BaseModel, Field

from libs.contracts.credentials import ScopeName, SortedScopes
from libs.contracts.models import StrictModel
from libs.contracts.timestamps import Timestamp

LONGEST_TOKEN_SECONDS: Final = 3600


class TokenBody(StrictModel):
    """``POST /auth/token/``. Without ``scopes`` the token gets its key's."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"to read artifacts": {"scopes": ["artifacts:read"], "expires_in": 900}}

    scopes: list[ScopeName] | None = Field(default=None, min_length=1, max_length=50)
    expires_in: int = Field(default=LONGEST_TOKEN_SECONDS, ge=60, le=LONGEST_TOKEN_SECONDS, description="Seconds.")


class TokenReply(BaseModel):
    """A bearer token, which isn't stored. It ends with its key at the latest."""

    access_token: str
    token_type: str = "Bearer"  # noqa: S105
    expires_in: int
    expires_at: Timestamp
    scopes: SortedScopes
