"""Agents: versioned configurations of models, tools and knowledge bases."""

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from libs.contracts.errors import ErrorDetail
from libs.contracts.messages import BodyCommand, Command, Event
from libs.contracts.models import JsonObject, Name, SearchMode, StrictModel
from libs.contracts.pages import ListPage
from libs.contracts.timestamps import Timestamp

EXAMPLE_ENVELOPE: Final = {"owner_id": None}

AgentType = Literal["llm_agent", "react_agent"]


class LlmConfig(StrictModel):
    """Model settings. ``model`` has the format ``provider:name``; ``temperature`` is from 0 to 2."""

    model: str = Field(default="builtin:extractive", min_length=1, max_length=200)
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_steps: int | None = Field(default=None, ge=1, le=50)
    """The maximum number of model calls that a ``react_agent`` can make in one turn."""


class KnowledgeBaseLink(StrictModel):
    """A knowledge base that the agent can search, with its search settings."""

    id: str = Field(min_length=1, max_length=200)
    top_k: int = Field(default=5, ge=1, le=50)
    mode: SearchMode = "hybrid"
    min_score: float | None = Field(default=None, ge=0, le=1)


Text = Annotated[str, Field(max_length=200_000)]
Approval = Literal["never", "always"]
CallSeconds = Annotated[float, Field(ge=1, le=600)]
"""The maximum duration of one tool call."""
CallRetries = Annotated[int, Field(ge=0, le=5)]
"""The maximum number of retries of a tool call after connection errors, timeouts, and 429 or 5xx responses.

A call is retried only if it's safe to repeat.
"""


class ToolPolicy(StrictModel):
    """Settings for an agent's calls to the tools that match a pattern. Omitted settings keep the tool's own values.

    If the tool and the policy disagree on approval, the stricter setting applies.
    """

    approval: Approval | None = None
    timeout_seconds: CallSeconds | None = None
    retries: CallRetries | None = None


ToolPattern = Annotated[str, Field(min_length=1, max_length=200)]
"""Matches tools: a tool's name, ``<toolset>.*`` for a toolset's tools, or ``*`` for every tool."""


class ClientTool(StrictModel):
    """A tool that the caller runs. Each call is an action of the turn.

    ``parameters`` is a JSON Schema of type ``object``.
    """

    name: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")
    description: str = Field(default="", max_length=10_000)
    parameters: JsonObject = {}


ToolPolicies = Annotated[dict[ToolPattern, ToolPolicy], Field(max_length=64)]
MOST_CLIENT_TOOLS: Final = 128
"""OpenAI has the same limit."""
ClientTools = Annotated[list[ClientTool], Field(max_length=MOST_CLIENT_TOOLS)]


class AgentConfiguration(StrictModel):
    """An agent's type, instructions, model, tools and knowledge bases.

    Each item of ``tools`` is a built-in tool's name, ``<toolset>.<tool>`` for one tool of a toolset, or
    ``<toolset>.*`` for all of them.
    """

    name: Name
    agent_type: AgentType
    system_prompt: Text = ""
    llm_config: LlmConfig = LlmConfig()
    tools: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(default=[], max_length=64)
    knowledge_bases: list[Annotated[str, Field(min_length=1, max_length=200)] | KnowledgeBaseLink] = Field(
        default=[], max_length=64
    )
    tool_policies: ToolPolicies = {}
    client_tools: ClientTools = []
    output_schema: JsonObject | None = None
    """The JSON Schema of the reply's ``output``."""


class ValidationReport(BaseModel):
    """The result of validating an agent configuration. ``config_hash`` is set only if the configuration is valid."""

    valid: bool
    errors: list[ErrorDetail] = []
    warnings: list[ErrorDetail] = []
    config_hash: str | None = None


class AgentSettings(StrictModel):
    """Settings of a stored agent that aren't part of its configuration."""

    is_public: bool = False
    is_shared: bool = False
    origin_url: str | None = Field(default=None, max_length=2000)
    allowed_origins: list[Annotated[str, Field(min_length=1, max_length=300)]] = Field(default=[], max_length=50)
    entry_point: str = Field(default="", max_length=500)


class CreateAgentBody(AgentConfiguration, AgentSettings):
    """The body of ``POST /agent/``: an agent's configuration and its other settings."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "with tools": {
            "name": "Harbour desk",
            "agent_type": "react_agent",
            "system_prompt": "You answer passengers' questions about fares and crossings.",
            "llm_config": {"model": "builtin:extractive", "temperature": 0.2, "max_steps": 8},
            "tools": ["calculator", "current_time"],
        },
        "without tools": {
            "name": "Support",
            "agent_type": "llm_agent",
            "system_prompt": "You answer questions about our product, briefly and kindly.",
            "llm_config": {"model": "builtin:extractive", "temperature": 0.2},
        },
    }


class UpdateAgentBody(StrictModel):
    """The body of ``PATCH /agent/{id}/``. Omitted fields keep their values.

    ``output_schema: null`` removes the output schema.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a new name": {"name": "Harbour desk"},
        "new instructions": {"system_prompt": "You answer in one sentence."},
        "shared with the company": {"is_shared": True},
    }

    name: Name | None = None
    agent_type: AgentType | None = None
    system_prompt: Text | None = None
    llm_config: LlmConfig | None = None
    tools: list[Annotated[str, Field(min_length=1, max_length=200)]] | None = Field(default=None, max_length=64)
    knowledge_bases: list[Annotated[str, Field(min_length=1, max_length=200)] | KnowledgeBaseLink] | None = Field(
        default=None, max_length=64
    )
    tool_policies: ToolPolicies | None = None
    client_tools: ClientTools | None = None
    output_schema: JsonObject | None = None
    is_public: bool | None = None
    is_shared: bool | None = None
    origin_url: str | None = Field(default=None, max_length=2000)
    allowed_origins: list[Annotated[str, Field(min_length=1, max_length=300)]] | None = Field(
        default=None, max_length=50
    )
    entry_point: str | None = Field(default=None, max_length=500)


class Agent(BaseModel):
    """A stored agent. ``owner`` and ``company`` are IDs."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "with tools": {
            "id": "01980f51-7e20-7b14-8c2d-1a2b3c4d5e04",
            "agent_key": "harbour-desk-7kq2vx",
            "name": "Harbour desk",
            "architecture": "react_agent",
            "entry_point": "",
            "is_public": False,
            "is_shared": False,
            "origin_url": None,
            "allowed_origins": [],
            "owner": "01980f4e-2c05-7d42-8e1b-0b9a7c3d5e02",
            "company": "01980f4e-2b6a-7c11-9a53-6f0f1d8e4b01",
            "system_config": {**CreateAgentBody.EXAMPLES["with tools"], "knowledge_bases": []},
            "version_number": "1.0.0",
            "config_hash": "a0e7144f8ed2eab323747737f8ae1bcf8d16a9cee15a89038cffd78e7ca5ef82",
            "created_at": "2026-05-04T08:15:30.120455Z",
            "updated_at": "2026-05-04T08:15:30.120455Z",
        }
    }

    id: str
    agent_key: str
    name: str
    architecture: str
    entry_point: str
    is_public: bool
    is_shared: bool
    origin_url: str | None
    allowed_origins: list[str] = []
    owner: str
    company: str
    system_config: dict[str, Any]
    version_number: str
    config_hash: str
    created_at: Timestamp
    updated_at: Timestamp


class AgentVersion(BaseModel):
    """An immutable version of an agent's configuration."""

    version_number: str
    config_hash: str
    system_config: dict[str, Any]
    created_by: str
    created_at: Timestamp


class AgentVersionPage(ListPage):
    versions: list[AgentVersion]


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


class AgentCreated(Event, type="aes.registry.agent.created.v1"):
    """An agent was created."""

    agent: Agent


class AgentUpdated(Event, type="aes.registry.agent.updated.v1"):
    """An agent was updated.

    If the configuration changed, the agent has a new version with a higher ``version_number``.
    """

    agent: Agent


class AgentDeleted(Event, type="aes.registry.agent.deleted.v1"):
    """An agent was deleted."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"deleted by its owner": {"agent_key": "harbour-desk-7kq2vx"}}

    agent_id: str
    agent_key: str


class CreateAgent(BodyCommand, type="aes.registry.create_agent.v1", outcomes=(AgentCreated,)):
    """Create an agent."""

    EXAMPLES: ClassVar[dict[str, Any]] = {name: {"agent": body} for name, body in CreateAgentBody.EXAMPLES.items()}

    agent_id: str
    agent: CreateAgentBody


class UpdateAgent(BodyCommand, type="aes.registry.update_agent.v1", outcomes=(AgentUpdated,), subject="agent_id"):
    """Update an agent. Omitted fields of ``changes`` keep their values."""

    EXAMPLES: ClassVar[dict[str, Any]] = {name: {"changes": body} for name, body in UpdateAgentBody.EXAMPLES.items()}

    agent_id: str
    changes: UpdateAgentBody


class DeleteAgent(Command, type="aes.registry.delete_agent.v1", outcomes=(AgentDeleted,), subject="agent_id"):
    """Delete an agent."""

    agent_id: str
