"""Bodies that only the gateway knows: API keys, the caller, and shapes for the reference."""

from datetime import UTC
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from libs.contracts.api.agents import AgentVersion, StrictModel
from libs.contracts.errors import ErrorInfo
from libs.contracts.identity import Scope
from libs.contracts.timestamps import Timestamp, parse_time


def _moment(text: str) -> str:
    try:
        parse_time(text).astimezone(UTC)
    except OverflowError:
        raise ValueError("the time is out of range") from None
    return text


def _scope(text: str) -> str:
    return Scope(text).value


Moment = Annotated[
    str,
    AfterValidator(_moment),
    Field(max_length=40, json_schema_extra={"format": "date-time"}, examples=["2031-01-31T00:00:00Z"]),
]
ScopeName = Annotated[str, AfterValidator(_scope), Field(json_schema_extra={"enum": [s.value for s in Scope]})]


class CreateKeyBody(StrictModel):
    """``POST /api-keys/``. Without ``scopes`` the key may do what its maker may."""

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
    scopes: list[str]
    user_id: str
    rate_limit: int | None
    created_at: Timestamp
    expires_at: Timestamp | None
    revoked_at: Timestamp | None
    successor_id: str | None


class IssuedKeyReply(Key):
    """A new key with its secret, which is shown this once."""

    secret: str


class KeyPage(BaseModel):
    api_keys: list[Key]
    total: int
    has_more: bool


class Me(BaseModel):
    """Who the credential belongs to and what it may do."""

    user_id: str
    user_name: str
    company_id: str
    company_name: str
    key_id: str
    scopes: list[str]
    rate_limit: int | None
    expires_at: Timestamp | None


class TurnCancelledReply(BaseModel):
    success: bool = True
    turn_id: str
    session_id: str
    status: str


class AgentVersionPage(BaseModel):
    versions: list[AgentVersion]
    total: int
    has_more: bool


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class ModelPage(_Open):
    models: list[dict[str, Any]]
    total: int
    has_more: bool


class ToolPage(_Open):
    tools: list[dict[str, Any]]
    total: int
    has_more: bool


class ErrorBody(BaseModel):
    """The body of every error."""

    error: ErrorInfo
