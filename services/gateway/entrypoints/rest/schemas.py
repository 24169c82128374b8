"""Bodies owned by the gateway: credentials, the caller, and schemas for the reference."""

from datetime import UTC
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from libs.contracts.errors import ErrorInfo
from libs.contracts.identity import Scope
from libs.contracts.models import StrictModel
from libs.contracts.origins import ORIGIN_PATTERN, canonical_origin
from libs.contracts.pages import ListPage
from libs.contracts.resources.agents import AgentVersion
from libs.contracts.timestamps import Timestamp, parse_time
from services.gateway.domain.accounts import LONGEST_TOKEN_SECONDS
from services.gateway.domain.connections import PUBLIC_SCOPES


def _moment(text: str) -> str:
    try:
        parse_time(text).astimezone(UTC)
    except OverflowError:
        raise ValueError("the time is out of range") from None
    return text


def _scope(text: str) -> str:
    return Scope(text).value


def _public_scope(text: str) -> str:
    if text not in PUBLIC_SCOPES:
        raise ValueError("visitors cannot be given this scope")
    return text


Moment = Annotated[
    str,
    AfterValidator(_moment),
    Field(max_length=40, json_schema_extra={"format": "date-time"}, examples=["2031-01-31T00:00:00Z"]),
]
ScopeName = Annotated[str, AfterValidator(_scope), Field(json_schema_extra={"enum": [s.value for s in Scope]})]
PublicScopeName = Annotated[
    str, AfterValidator(_public_scope), Field(json_schema_extra={"enum": sorted(PUBLIC_SCOPES)})
]
OriginText = Annotated[
    str,
    AfterValidator(canonical_origin),
    Field(max_length=300, pattern=ORIGIN_PATTERN, examples=["https://example.com"]),
]


SortedScopes = Annotated[list[str], BeforeValidator(sorted)]


class CreateKeyBody(StrictModel):
    """``POST /api-keys/``. Without ``scopes`` the key gets its creator's."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "reader": {
            "name": "dashboard",
            "scopes": ["agents:read", "sessions:read"],
            "expires_at": "2031-01-31T00:00:00Z",
        }
    }

    name: str = Field(default="", max_length=200)
    scopes: list[ScopeName] | None = Field(default=None, min_length=1, max_length=50)
    expires_at: Moment | None = Field(default=None, description="In the future; by default 90 days from now.")
    rate_limit: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Requests per minute; at most the creator's own, which is the default.",
    )


class RotateKeyBody(StrictModel):
    """``POST /api-keys/{id}/rotate/``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"an hour of both": {"grace_seconds": 3600}}

    expires_at: Moment | None = Field(
        default=None, description="Expiry of the new key; by default it lives as long as the old one."
    )
    # At least as long as keys are cached: before that, the old key may still be accepted.
    grace_seconds: int = Field(default=86_400, ge=60, le=2_592_000, description="How long the old key stays valid.")


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


class CreateConnectionBody(StrictModel):
    """``POST /connections/``: a public key for one agent, given by its ID or key."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "help on a web site": {
            "name": "help widget",
            "agent_key": "support",
            "allowed_origins": ["https://www.example.com"],
            "quota": 120,
        }
    }

    name: str = Field(default="", max_length=200, description="Defaults to the agent's name.")
    agent_id: str | None = Field(default=None, min_length=1, max_length=200)
    agent_key: str | None = Field(default=None, min_length=1, max_length=300)
    allowed_origins: list[OriginText] = Field(
        min_length=1, max_length=50, description="Origins of pages that may use the key, such as `https://example.com`."
    )
    scopes: list[PublicScopeName] | None = Field(
        default=None, min_length=1, max_length=10, description="Defaults to all scopes that visitors may have."
    )
    quota: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Requests per minute for all visitors together; at most the creator's rate limit, the default.",
    )
    expires_at: Moment | None = Field(default=None, description="In the future; by default never.")

    @model_validator(mode="after")
    def _names_one_agent(self) -> "CreateConnectionBody":
        if (self.agent_id is None) == (self.agent_key is None):
            raise ValueError("give exactly one of agent_id and agent_key")
        return self


class Connection(BaseModel):
    """A connection. ``connection_key`` is public: web pages contain it. ``quota``: requests per minute."""

    id: str
    name: str
    connection_key: str
    agent_id: str
    agent_key: str
    allowed_origins: list[str]
    scopes: SortedScopes
    quota: int | None
    user_id: str
    created_at: Timestamp
    expires_at: Timestamp | None


class ConnectionPage(ListPage):
    connections: list[Connection]


class Key(BaseModel):
    """An API key. ``prefix`` is the start of its secret; ``rate_limit``: requests per minute, null for no limit."""

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
    """A new key with its secret, which is only returned this once."""

    secret: str


class KeyPage(ListPage):
    api_keys: list[Key]


class LimitOfCompany(BaseModel):
    """`limit` is null if there is none, `used` while the service that counts doesn't answer."""

    limit: int | None
    used: int | None


class Me(BaseModel):
    """The credential's owner and rights, and the company's limits with their use.

    For rates, `used` counts requests or turns not yet refilled: a sixtieth of the limit returns every second. Each
    gateway reserves some in advance, so up to a twentieth per gateway may be unused.
    """

    user_id: str
    user_name: str
    company_id: str
    company_name: str
    key_id: str
    scopes: SortedScopes
    rate_limit: int | None
    expires_at: Timestamp | None
    limits: dict[str, LimitOfCompany]


class TurnCancelledReply(BaseModel):
    success: bool = True
    turn_id: str
    session_id: str
    status: str


class AgentVersionPage(ListPage):
    versions: list[AgentVersion]


class TimelineEventView(BaseModel):
    """An event of the timeline. `position` counts the company's events; `type` has no prefix or version."""

    id: str
    position: int
    type: str
    source: str
    subject: str
    sequence: int
    time: Timestamp
    correlation_id: str
    causation_id: str | None
    session_id: str | None = None
    turn_id: str | None = None
    data: dict[str, Any]


class EventPage(BaseModel):
    """`next` goes into `after` to read on."""

    events: list[TimelineEventView]
    has_more: bool
    next: int


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
