"""Bodies of requests.

Made by `generate.py` from the contracts of the service: change those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Required

AgentType = Literal["llm_agent", "react_agent"]
Approval = Literal["never", "always"]
BudgetPeriod = Literal["day", "month", "total"]
BulkOperation = Literal["delete", "update_tags", "change_status"]
Engine = Literal["pgvector", "weaviate"]
FileStatus = Literal["active", "inactive"]
ImageDetail = Literal["auto", "low", "high", "original"]
SearchMode = Literal["hybrid", "semantic", "keyword"]
SplitBy = Literal["token", "word", "sentence", "passage", "page", "line", "character"]
Strategy = Literal["recursive", "fixed_size", "sentence", "paragraph", "page", "markdown", "row"]


class LlmConfig(TypedDict, total=False):
    """Model settings. ``model`` is ``provider:name``; ``temperature`` 0 to 2."""

    model: str
    temperature: float | None
    max_tokens: int | None
    top_p: float | None
    max_steps: int | None


class KnowledgeBaseLink(TypedDict, total=False):
    """A knowledge base that an agent draws on, with how to search it."""

    id: Required[str]
    top_k: int
    mode: SearchMode
    min_score: float | None


class ToolPolicy(TypedDict, total=False):
    """Settings for an agent's calls of some tools; what is left out stays as the tool has it.

    Of two approvals, the tool's and the policy's, the stricter one holds.
    """

    approval: Approval | None
    timeout_seconds: float | None
    retries: int | None


class ClientTool(TypedDict, total=False):
    """A tool that the caller runs: its calls are actions of the turn. ``parameters``: the JSON Schema of an object."""

    name: Required[str]
    description: str
    parameters: dict[str, Any]


class AgentConfiguration(TypedDict, total=False):
    """The type, instructions, model, tools and knowledge of an agent.

    ``tools``: names of built-in tools, ``<toolset>.<tool>``, or ``<toolset>.*`` for all of a toolset.
    """

    name: Required[str]
    agent_type: Required[AgentType]
    system_prompt: str
    llm_config: LlmConfig
    tools: list[str]
    knowledge_bases: list[str | KnowledgeBaseLink]
    tool_policies: dict[str, ToolPolicy]
    client_tools: list[ClientTool]
    output_schema: dict[str, Any] | None


class AgentSettings(TypedDict, total=False):
    """Settings of a stored agent beside its configuration."""

    is_public: bool
    is_shared: bool
    origin_url: str | None
    allowed_origins: list[str]
    entry_point: str


class CreateAgentBody(TypedDict, total=False):
    """``POST /agent/``: the configuration itself, plus the settings of a stored agent."""

    is_public: bool
    is_shared: bool
    origin_url: str | None
    allowed_origins: list[str]
    entry_point: str
    name: Required[str]
    agent_type: Required[AgentType]
    system_prompt: str
    llm_config: LlmConfig
    tools: list[str]
    knowledge_bases: list[str | KnowledgeBaseLink]
    tool_policies: dict[str, ToolPolicy]
    client_tools: list[ClientTool]
    output_schema: dict[str, Any] | None


class UpdateAgentBody(TypedDict, total=False):
    """``PATCH /agent/{id}/``: whatever is given replaces what stands. ``output_schema: null`` removes it."""

    name: str | None
    agent_type: AgentType | None
    system_prompt: str | None
    llm_config: LlmConfig | None
    tools: list[str] | None
    knowledge_bases: list[str | KnowledgeBaseLink] | None
    tool_policies: dict[str, ToolPolicy] | None
    client_tools: list[ClientTool] | None
    output_schema: dict[str, Any] | None
    is_public: bool | None
    is_shared: bool | None
    origin_url: str | None
    allowed_origins: list[str] | None
    entry_point: str | None


class TextBlock(TypedDict, total=False):
    type: Required[Literal["text"]]
    text: Required[str]


class ImageUrl(TypedDict, total=False):
    url: Required[str]
    detail: ImageDetail | None


class ImageUrlBlock(TypedDict, total=False):
    """An image on the web; ``data:`` URLs are refused."""

    type: Required[Literal["image_url"]]
    image_url: Required[ImageUrl]


class ArtifactSource(TypedDict, total=False):
    artifact_id: Required[str]


class FileBlock(TypedDict, total=False):
    """An artifact of this session, by id."""

    type: Required[Literal["file"]]
    source: Required[ArtifactSource]
    detail: ImageDetail | None


class ImageBlock(TypedDict, total=False):
    """An image artifact of this session, by the URL returned on upload."""

    type: Required[Literal["image"]]
    url: Required[str]
    detail: ImageDetail | None


class GivenToolCall(TypedDict, total=False):
    """A tool call of a given message. ``id``: unique in the conversation."""

    id: Required[str]
    name: Required[str]
    arguments: Required[dict[str, Any]]


class GivenMessage(TypedDict, total=False):
    """A message of a conversation that took place elsewhere.

    An assistant's message may have ``tool_calls``; a tool's message is the result of the call ``tool_call_id`` of a
    message before it.
    """

    role: Required[Literal["user", "assistant", "tool"]]
    content: Required[str | list[TextBlock | ImageUrlBlock]]
    tool_calls: list[GivenToolCall]
    tool_call_id: str | None


class GivenHistory(TypedDict, total=False):
    """The conversation that a session begins with, oldest message first."""

    messages: list[GivenMessage]


class AgentReference(TypedDict, total=False):
    """A stored agent named by exactly one of its id and its key (``POST /sessions/``)."""

    agent_id: str | None
    agent_key: str | None


class ForkSessionBody(TypedDict, total=False):
    """``POST /sessions/{session_id}/fork/``. Without a turn, of which it takes one, the whole history is copied."""

    up_to_turn_id: str | None
    before_turn_id: str | None


class ConfiguredSession(TypedDict, total=False):
    """``POST /sessions/`` with an agent of its own."""

    messages: list[GivenMessage]
    name: Required[str]
    agent_type: Required[Literal["llm_agent", "react_agent"]]
    system_prompt: str
    llm_config: LlmConfig
    tools: list[str]
    knowledge_bases: list[str | KnowledgeBaseLink]
    tool_policies: dict[str, ToolPolicy]
    client_tools: list[ClientTool]
    output_schema: dict[str, Any] | None


class ReferencedSession(TypedDict, total=False):
    """``POST /sessions/`` with a stored agent, named by exactly one of its id and its key."""

    messages: list[GivenMessage]
    agent_id: str | None
    agent_key: str | None


class NamedTool(TypedDict, total=False):
    """A tool that the model has to call."""

    name: Required[str]


class TurnOptions(TypedDict, total=False):
    """Settings of one turn, which go before the agent's own. ``instructions`` are added to the agent's.

    ``stop``: the model's answer ends before the first of these texts. ``tool_choice``: whether tools may be called, or
    must be, until the first call is made. ``output_schema``: JSON Schema of the reply's ``output``. ``metadata``
    changes nothing: it is kept with the turn.
    """

    instructions: str | None
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    stop: list[str] | None
    tool_choice: Literal["auto", "none", "required"] | NamedTool | None
    parallel_tool_calls: bool | None
    client_tools: list[ClientTool] | None
    output_schema: dict[str, Any] | None
    metadata: dict[str, str] | None


class ExecuteBody(TypedDict, total=False):
    """``POST /runtime/{session_id}/execute/``: a text or a list of blocks.

    Models refuse texts of white space only.
    """

    content: Required[str | list[TextBlock | ImageUrlBlock | FileBlock | ImageBlock]]
    correlation_id: str | None
    options: TurnOptions | None


class ResolveActionBody(TypedDict, total=False):
    """``POST …/actions/{action_id}/``: exactly one of ``decision``, ``output`` and ``error``.

    ``decision`` answers an approval, with an optional ``reason`` for a denial; ``output`` (a text or any JSON, null as
    well) and ``error`` answer a call that the caller ran.
    """

    decision: Literal["approve", "deny"] | None
    reason: str | None
    output: Any
    error: str | None


class BulkParameters(TypedDict, total=False):
    """``tags`` for ``update_tags`` (they replace), ``status`` for ``change_status``."""

    tags: list[str] | None
    status: FileStatus | None


class BulkBody(TypedDict, total=False):
    operation: Required[BulkOperation]
    file_ids: Required[list[str]]
    parameters: BulkParameters


class CreateCollectionBody(TypedDict, total=False):
    name: Required[str]
    description: str


class UpdateCollectionBody(TypedDict, total=False):
    name: str | None
    description: str | None


class CollectionFilesBody(TypedDict, total=False):
    file_ids: Required[list[str]]


class ChunkingStrategy(TypedDict, total=False):
    """Splits documents into chunks. ``chunk_size`` and ``chunk_overlap`` count units of ``split_by``.

    An overlap that is not given is an eighth of the size, 64 at most.
    """

    strategy: Strategy
    chunk_size: int
    chunk_overlap: int
    split_by: SplitBy
    recursive_separators: list[str]


class EmbeddingConfig(TypedDict, total=False):
    """``provider`` is ``wordllama`` (in process) or ``openai`` (any OpenAI-compatible server)."""

    provider: str
    model: str
    dimensions: int | None


class CreateKnowledgeBaseBody(TypedDict, total=False):
    """``ingest: false`` keeps the first ingestion for later. ``processing_engine`` defaults to the installation's."""

    name: Required[str]
    description: str
    collection_ids: list[str]
    file_ids: list[str]
    processing_engine: Engine | None
    chunking_strategy: ChunkingStrategy
    embedding_config: EmbeddingConfig
    llm_config: dict[str, Any]
    ingest: bool


class UpdateKnowledgeBaseBody(TypedDict, total=False):
    """Replaces the given fields; other content or settings take effect with the next ingestion."""

    name: str | None
    description: str | None
    collection_ids: list[str] | None
    file_ids: list[str] | None
    processing_engine: Engine | None
    chunking_strategy: ChunkingStrategy | None
    embedding_config: EmbeddingConfig | None
    llm_config: dict[str, Any] | None


class SearchFilters(TypedDict, total=False):
    collection_ids: list[str]
    file_ids: list[str]
    tags: list[str]


class SearchBody(TypedDict, total=False):
    query: Required[str]
    mode: SearchMode
    top_k: int
    min_score: float | None
    filters: SearchFilters


class CallSettings(TypedDict, total=False):
    """Settings for calls of a tool; what is left out has the default of its tool.

    ``safe_to_repeat``: by default GET, or what MCP's ``idempotentHint`` and ``readOnlyHint`` say.
    """

    safe_to_repeat: bool | None
    approval: Approval | None
    timeout_seconds: float | None
    retries: int | None


class McpToolsetBody(TypedDict, total=False):
    """An MCP server over streamable HTTP; with ``allowed_tools``, only these of its tools."""

    safe_to_repeat: bool | None
    approval: Approval | None
    timeout_seconds: float | None
    retries: int | None
    name: Required[str]
    description: str
    tool_settings: dict[str, CallSettings]
    type: Required[Literal["mcp"]]
    url: Required[str]
    headers: dict[str, str]
    allowed_tools: list[str] | None


class OpenApiToolsetBody(TypedDict, total=False):
    """Operations of an OpenAPI document (3.0 or 3.1), given or fetched; with ``operations``, only those.

    ``operations``: ``operationId``, or method and path such as ``GET /tickets/{id}``.
    """

    safe_to_repeat: bool | None
    approval: Approval | None
    timeout_seconds: float | None
    retries: int | None
    name: Required[str]
    description: str
    tool_settings: dict[str, CallSettings]
    type: Required[Literal["openapi"]]
    document: dict[str, Any] | str | None
    document_url: str | None
    base_url: str | None
    operations: list[str] | None
    headers: dict[str, str]


class HttpTool(TypedDict, total=False):
    """One HTTP request, with ``{argument}`` placeholders in ``url``, ``query`` and ``body``.

    A placeholder that is a whole JSON value keeps its argument's type.
    """

    safe_to_repeat: bool | None
    approval: Approval | None
    timeout_seconds: float | None
    retries: int | None
    name: Required[str]
    description: str
    parameters: dict[str, Any]
    method: Required[Literal["GET", "POST", "PUT", "PATCH", "DELETE"]]
    url: Required[str]
    headers: dict[str, str]
    query: dict[str, Any]
    body: Any


class HttpToolsetBody(TypedDict, total=False):
    """Requests to HTTP services, described one by one."""

    safe_to_repeat: bool | None
    approval: Approval | None
    timeout_seconds: float | None
    retries: int | None
    name: Required[str]
    description: str
    tool_settings: dict[str, CallSettings]
    type: Required[Literal["http"]]
    tools: Required[list[HttpTool]]


class UpdateToolsetBody(TypedDict, total=False):
    """``PATCH /toolsets/{name}/``: whatever is given replaces what stands; null removes what may be left out.

    Name and type stay. A ``document`` replaces a ``document_url``, and the other way round.
    """

    safe_to_repeat: bool | None
    approval: Approval | None
    timeout_seconds: float | None
    retries: int | None
    description: str | None
    tool_settings: dict[str, CallSettings] | None
    url: str | None
    headers: dict[str, str] | None
    allowed_tools: list[str] | None
    document: dict[str, Any] | str | None
    document_url: str | None
    base_url: str | None
    operations: list[str] | None
    tools: list[HttpTool] | None


class CallToolBody(TypedDict, total=False):
    """``POST /toolsets/{name}/tools/{tool}/call/``."""

    arguments: dict[str, Any]


class PutSecretBody(TypedDict, total=False):
    """``PUT /secrets/{name}/``. The value goes into headers of requests, so it is printable ASCII."""

    value: Required[str]


class CreateBudgetBody(TypedDict, total=False):
    """``POST /budgets/``: of the company, or of one of its users or keys.

    Either ``cost``, an exact decimal, or ``tokens``, input and output together. A ``day`` and a ``month`` are those of
    UTC. At ``warning_percent`` of it there is an event, null for none.
    """

    description: str
    user_id: str | None
    key_id: str | None
    period: Required[BudgetPeriod]
    cost: str | None
    tokens: int | None
    warning_percent: int | None


class UpdateBudgetBody(TypedDict, total=False):
    """``PATCH /budgets/{id}/``. What is left out stays; ``cost`` and ``tokens`` take each other's place."""

    description: str | None
    cost: str | None
    tokens: int | None
    warning_percent: int | None


class SetRetentionBody(TypedDict, total=False):
    """``PUT /retention/``; with null the installation's default holds."""

    session_retention_days: Required[int | None]


class CreateKeyBody(TypedDict, total=False):
    """``POST /api-keys/``. Without ``scopes`` the key gets its creator's."""

    name: str
    scopes: list[str] | None
    expires_at: str | None
    rate_limit: int | None


class RotateKeyBody(TypedDict, total=False):
    """``POST /api-keys/{id}/rotate/``."""

    expires_at: str | None
    grace_seconds: int


class TokenBody(TypedDict, total=False):
    """``POST /auth/token/``. Without ``scopes`` the token gets its key's."""

    scopes: list[str] | None
    expires_in: int


class CreateConnectionBody(TypedDict, total=False):
    """``POST /connections/``: a public key for one agent, given by its ID or key."""

    name: str
    agent_id: str | None
    agent_key: str | None
    allowed_origins: Required[list[str]]
    scopes: list[str] | None
    quota: int | None
    expires_at: str | None


class CreateWebhookBody(TypedDict, total=False):
    """``POST /webhooks/``."""

    url: Required[str]
    event_types: Required[list[str]]
    description: str
    status: Literal["enabled", "disabled"]


class UpdateWebhookBody(TypedDict, total=False):
    """``PATCH /webhooks/{id}/``. Omitted fields stay unchanged."""

    url: str | None
    event_types: list[str] | None
    description: str | None
    status: Literal["enabled", "disabled"] | None


class RotateWebhookBody(TypedDict, total=False):
    """``POST /webhooks/{id}/rotate/``."""

    grace_seconds: int


ContentBlock = TextBlock | ImageUrlBlock | FileBlock | ImageBlock

ToolsetBody = McpToolsetBody | OpenApiToolsetBody | HttpToolsetBody
