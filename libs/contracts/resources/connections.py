"""Connections: public keys that let web pages chat with one agent."""

from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, Field, model_validator

from libs.contracts.credentials import Moment, SortedScopes
from libs.contracts.identity import PUBLIC_SCOPES
from libs.contracts.messages import Event
from libs.contracts.models import StrictModel
from libs.contracts.origins import ORIGIN_PATTERN, canonical_origin
from libs.contracts.pages import ListPage
from libs.contracts.timestamps import Timestamp


def _public_scope(text: str) -> str:
    if text not in PUBLIC_SCOPES:
        raise ValueError("public keys can't have this scope")
    return text


PublicScopeName = Annotated[
    str, AfterValidator(_public_scope), Field(json_schema_extra={"enum": sorted(PUBLIC_SCOPES)})
]
OriginText = Annotated[
    str,
    AfterValidator(canonical_origin),
    Field(max_length=300, pattern=ORIGIN_PATTERN, examples=["https://example.com"]),
]


class CreateConnectionBody(StrictModel):
    """The body of ``POST /connections/``: a public key for one agent. Specify the agent by ID or key."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "website help": {
            "name": "help widget",
            "agent_key": "harbour-desk-7kq2vx",
            "allowed_origins": ["https://www.example.com"],
            "quota": 120,
        }
    }

    name: str = Field(default="", max_length=200, description="Defaults to the agent's name.")
    agent_id: str | None = Field(default=None, min_length=1, max_length=200)
    agent_key: str | None = Field(default=None, min_length=1, max_length=300)
    allowed_origins: list[OriginText] = Field(
        min_length=1,
        max_length=50,
        description="Origins of web pages that may use the key, such as `https://example.com`.",
    )
    scopes: list[PublicScopeName] | None = Field(
        default=None, min_length=1, max_length=10, description="Defaults to all scopes that public keys can have."
    )
    quota: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Requests per minute, for all end users together. Defaults to the creator's rate limit, which is"
        " also the maximum.",
    )
    expires_at: Moment | None = Field(
        default=None, description="A future time at which the key expires. By default, the key doesn't expire."
    )

    @model_validator(mode="after")
    def _names_one_agent(self) -> "CreateConnectionBody":
        if (self.agent_id is None) == (self.agent_key is None):
            raise ValueError("set exactly one of agent_id and agent_key")
        return self


class Connection(BaseModel):
    """A connection. ``connection_key`` is public: web pages contain it. ``quota`` is in requests per minute."""

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


class ConnectionCreated(Event, type="aes.gateway.connection.created.v1"):
    """A connection was created. Its public key lets web pages chat with one agent."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"website help": {"connection_id": "01980f5a-11d4-7c35-9b1e-3f2a1b0c9d8e"}}

    connection_id: str
    agent_id: str
    user_id: str


class ConnectionDeleted(Event, type="aes.gateway.connection.deleted.v1"):
    """A connection was deleted. Every gateway removes the key from its cache and closes the end users' streams."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"website help": {"connection_id": "01980f5a-11d4-7c35-9b1e-3f2a1b0c9d8e"}}

    connection_id: str
