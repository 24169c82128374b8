"""Answers of the service.

Made by `generate.py` from the contracts of the service: change those.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Model(BaseModel):
    """An answer. Fields that a newer service has are kept, and are attributes as well."""

    # Built when it is first used: programs read a few of these, and start faster without the others.
    model_config = ConfigDict(extra="allow", frozen=True, protected_namespaces=(), defer_build=True)


if TYPE_CHECKING:
    ActionKind = Literal["approval", "tool_result"]
    Approval = Literal["never", "always"]
    ArtifactOrigin = Literal["uploaded", "generated"]
    BudgetPeriod = Literal["day", "month", "total"]
    CallToolReplyStatus = Literal["completed", "failed"]
    CollectionStatus = Literal["pending", "running", "completed", "failed"]
    DeliveryStatus = Literal["pending", "delivered", "failed"]
    DisabledReason = Literal["requested", "gone", "unreachable", "key_revoked"]
    ErrorKind = Literal[
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "not_found_error",
        "method_not_allowed",
        "conflict_error",
        "request_too_large",
        "unsupported_media_type",
        "range_not_satisfiable",
        "validation_error",
        "rate_limit_error",
        "budget_exceeded",
        "quota_exceeded",
        "internal_error",
        "model_error",
        "service_unavailable",
        "timeout_error",
    ]
    ExceededBudgetUnit = Literal["cost", "tokens"]
    FileStatus = Literal["active", "inactive"]
    FinishReason = Literal["stop", "length", "content_filter", "tool_calls"]
    KnowledgeBaseStatus = Literal["pending", "running", "completed", "failed"]
    MessageRole = Literal["user", "assistant", "tool"]
    ProcessingStatus = Literal["pending", "ready", "failed"]
    ProcessingStrategy = Literal["vision", "rag_indexing", "structural_parsing"]
    ReplicaStatus = Literal["ready", "not ready", "unreachable"]
    SearchMode = Literal["hybrid", "semantic", "keyword"]
    ServiceStateStatus = Literal["ready", "degraded", "unavailable"]
    SessionStatus = Literal["active", "deleting"]
    TurnActionResolvedDecision = Literal["approve", "deny", "expired"]
    TurnStatus = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]
    WebhookStatus = Literal["enabled", "disabled"]
else:
    # A newer service may know more values.
    ActionKind = str
    Approval = str
    ArtifactOrigin = str
    BudgetPeriod = str
    CallToolReplyStatus = str
    CollectionStatus = str
    DeliveryStatus = str
    DisabledReason = str
    ErrorKind = str
    ExceededBudgetUnit = str
    FileStatus = str
    FinishReason = str
    KnowledgeBaseStatus = str
    MessageRole = str
    ProcessingStatus = str
    ProcessingStrategy = str
    ReplicaStatus = str
    SearchMode = str
    ServiceStateStatus = str
    SessionStatus = str
    TurnActionResolvedDecision = str
    TurnStatus = str
    WebhookStatus = str


class ExceededBudget(Model):
    """A budget that is used up; ``limit`` and ``used`` in ``unit``, exact decimals as text for a cost."""

    budget_id: str
    unit: ExceededBudgetUnit
    limit: str | int
    used: str | int
    renews_at: str | None = None


class ExceededLimit(Model):
    """A limit of the company, by its name in `GET /me/`, and what of it is used."""

    name: str
    limit: int
    used: int


class ErrorDetail(Model):
    """One finding about one place of a document, or about a limit."""

    loc: list[str | int]
    type: str
    message: str
    hint: str | None = None
    budget: ExceededBudget | None = None
    limit: ExceededLimit | None = None


class ErrorInfo(Model):
    """The body of every error, on HTTP under ``error`` and in ``….rejected`` events."""

    type: ErrorKind
    message: str
    details: list[ErrorDetail] | None = None
    correlation_id: str | None = None
    retry_after: int | None = None


class Citation(Model):
    """A passage that a reply rests on."""

    knowledge_base_id: str | None = None
    knowledge_base_name: str | None = None
    file_id: str | None = None
    file_name: str | None = None
    artifact_id: str | None = None
    page: int | None = None
    row: int | None = None
    passage: str
    score: float | None = None


class ValidationReport(Model):
    """The findings of a validation; ``config_hash`` only for a valid configuration."""

    valid: bool
    errors: list[ErrorDetail] = []
    warnings: list[ErrorDetail] = []
    config_hash: str | None = None


class Agent(Model):
    """A stored agent. ``owner`` and ``company`` are identifiers."""

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
    created_at: datetime
    updated_at: datetime


class AgentVersion(Model):
    """One immutable version of an agent's configuration."""

    version_number: str
    config_hash: str
    system_config: dict[str, Any]
    created_by: str
    created_at: datetime


class RequestedToolCall(Model):
    """A tool call that the model asked for and that has not been made."""

    id: str
    name: str
    arguments: dict[str, Any]


class Message(Model):
    """A message of the history: ``content`` is the text blocks joined, ``content_blocks`` the blocks themselves.

    A ``tool``'s message is the result of a call, in histories that come from elsewhere; its ``content`` is the output.
    """

    id: str
    role: MessageRole
    content: str
    timestamp: datetime
    content_blocks: list[dict[str, Any]] = []
    turn_id: str | None = None


class SessionCreatedReply(Model):
    success: bool = True
    session_id: str
    config_hash: str


class Session(Model):
    """A conversation with the agent it was created with. ``forked_from``: the session whose history it began with.

    ``metadata``: pairs that another protocol's client gave it; left out when there are none.
    """

    session_id: str
    config_hash: str
    created_at: datetime
    status: SessionStatus
    agent_config: dict[str, Any]
    agent_id: str | None = None
    owner_id: str = ""
    forked_from: str | None = None
    metadata: dict[str, str] | None = None


class Usage(Model):
    """Tokens, calls and time that a turn took. ``seconds`` of work on it, without the time that it waited.

    ``cost`` is an exact decimal at the price that its model had then; null without a price.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    seconds: float = 0.0
    cost: str | None = None


class Attribution(Model):
    """The agent and model of a turn, and the user and key that began it."""

    agent_id: str | None = None
    model: str = ""
    user_id: str = ""
    key_id: str = ""


class ToolCallRecord(Model):
    """A tool call of a turn.

    ``status`` is ``completed``, ``failed``, ``unknown`` (outcome lost in a crash), or ``requested`` for a call that the
    caller runs, with which the turn has ended.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    status: str
    output: str | None = None


class Reply(Model):
    """``output``: the value that ``content`` is the JSON of, when the turn has an output schema; else left out."""

    content: str
    output: Any = None
    tool_calls: list[ToolCallRecord] = []
    citations: list[Citation] = []
    artifacts: list[dict[str, Any]] = []


class ExecuteReply(Attribution):
    """The answer to execute. ``message_id`` is the assistant's message, ``turn_id`` the execution itself.

    ``finish_reason`` is absent when the model finished by itself. It is ``length`` for a truncated reply,
    ``content_filter``, or ``tool_calls`` when the turn ended with calls for the caller to run.
    """

    success: bool = True
    message_id: str
    response: Reply
    correlation_id: str
    session_id: str
    turn_id: str
    user_message_id: str
    usage: Usage
    config_hash: str
    warnings: list[str] = []
    finish_reason: FinishReason = "stop"


class RequiredAction(Model):
    """An answer from outside that a waiting turn needs before it goes on.

    ``approval``: a person decides whether the call is made, with exactly these arguments. ``tool_result``: the caller
    runs the tool and gives its result. At ``expires_at`` the call fails and the turn goes on.
    """

    action_id: str
    kind: ActionKind
    tool_call: RequestedToolCall
    expires_at: datetime


class BlockedBy(Model):
    """The waiting turn that a queued one comes after, and the answers that it needs."""

    turn_id: str
    required_actions: list[RequiredAction] = []


class TurnAccepted(Model):
    """The 202 body: the turn goes on; ``Location`` names it. ``required_actions``: what a waiting turn needs.

    ``blocked_by``: the turn of its session that a queued one waits for, when that one waits for answers itself.
    """

    success: bool = True
    turn_id: str
    session_id: str
    status: TurnStatus
    correlation_id: str
    required_actions: list[RequiredAction] = []
    blocked_by: BlockedBy | None = None


class TurnToolset(Model):
    """The version of a toolset that a turn works with."""

    name: str
    version: int


class Turn(Model):
    """A turn's state; ``reply`` once completed, ``error`` once failed, ``required_actions`` while it is waiting.

    ``blocked_by`` while it is queued behind a waiting turn.
    """

    turn_id: str
    session_id: str
    status: TurnStatus
    attempt: int
    position: int
    correlation_id: str
    user_message_id: str
    message_id: str | None = None
    usage: Usage | None = None
    reply: ExecuteReply | None = None
    error: ErrorInfo | None = None
    required_actions: list[RequiredAction] = []
    blocked_by: BlockedBy | None = None
    toolsets: list[TurnToolset] = []
    options: dict[str, Any] | None = None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None


class TurnQueued(Model):
    """The turn waits for earlier turns of its session, or for a free worker.

    ``blocked_by``: the earlier turn when it waits for answers, without which none of the session goes on.
    """

    session_id: str
    turn_id: str
    position: int
    user_message_id: str
    blocked_by: BlockedBy | None = None


class TurnStarted(Model):
    session_id: str
    turn_id: str
    attempt: int
    user_message_id: str


class TurnRestarted(Model):
    """Another worker has taken over the turn. Consumers discard text of steps after ``resumed_from_step``."""

    session_id: str
    turn_id: str
    attempt: int
    resumed_from_step: int


class TurnCompleted(ExecuteReply):
    """The turn has ended with a reply. The payload is the body of the HTTP answer to ``execute``."""


class TurnFailed(Attribution):
    """``usage`` is that of the model's answers that were recorded or came with the failure."""

    session_id: str
    turn_id: str
    error: ErrorInfo
    usage: Usage = Usage(input_tokens=0, output_tokens=0, model_calls=0, tool_calls=0, seconds=0.0, cost=None)


class TurnCancelled(Attribution):
    """``usage`` is that of the model's answers that were recorded until then."""

    session_id: str
    turn_id: str
    reason: str
    usage: Usage = Usage(input_tokens=0, output_tokens=0, model_calls=0, tool_calls=0, seconds=0.0, cost=None)


class ToolCallStarted(Model):
    """A call that the model asked for. ``text_length``, on a step's first call: characters of the step's text."""

    session_id: str
    turn_id: str
    step: int
    call_id: str
    name: str
    arguments: dict[str, Any]
    text_length: int = 0


class ToolCallCompleted(Model):
    session_id: str
    turn_id: str
    step: int
    call_id: str
    name: str
    output: str


class ToolCallFailed(Model):
    """The tool failed, or its outcome is unknown after a crash. The model gets ``reason`` as the result."""

    session_id: str
    turn_id: str
    step: int
    call_id: str
    name: str
    reason: str


class TurnActionRequired(Model):
    """The turn waits for an answer to this action. A turn may wait for several; it goes on when all are resolved."""

    session_id: str
    turn_id: str
    step: int
    action: RequiredAction


class TurnActionResolved(Model):
    """An action was answered, or has expired. ``decision`` is null for a tool's result, ``by`` empty for an expiry.

    A result, a denial and an expiry are followed by the call's ``tool_call.completed`` or ``tool_call.failed``, an
    approval once the call was made. The end of the turn closes its open actions without this event.
    """

    session_id: str
    turn_id: str
    action_id: str
    kind: ActionKind
    call_id: str
    decision: TurnActionResolvedDecision | None = None
    by: str = ""


class OutputInvalid(Model):
    """The model's answer does not fit the output schema, and it is asked again. ``text_length``: as for tool calls."""

    session_id: str
    turn_id: str
    step: int
    problems: list[str]
    text_length: int = 0


class CitationAdded(Model):
    session_id: str
    turn_id: str
    citation: Citation


class OutputTextDelta(Model):
    """A piece of the text of one step; ``offset`` counts characters from the step's beginning."""

    session_id: str
    turn_id: str
    attempt: int
    step: int
    offset: int
    text: str


class OutputTextDone(Model):
    """A step's text is complete; ``length`` counts its characters."""

    session_id: str
    turn_id: str
    attempt: int
    step: int
    length: int


class OpenAction(RequiredAction):
    """An action of ``GET /actions/``, with the turn that waits for it."""

    session_id: str
    turn_id: str
    created_at: datetime


class File(Model):
    """A stored document of a company. ``size`` in bytes; ``sha256`` names the bytes, stored once per company."""

    id: str
    name: str
    content_type: str
    size: int
    sha256: str
    status: FileStatus
    tags: list[str]
    collection_ids: list[str]
    created_at: datetime
    updated_at: datetime


class FileText(Model):
    """A part of the text that was read from a file: it begins at ``offset`` of ``characters``."""

    file_id: str
    text: str
    offset: int
    characters: int


class UploadedFiles(Model):
    """The reply to an upload of several files."""

    success: bool
    files: list[File]


class FileResult(Model):
    """The result for one file of a bulk request; ``error`` when ``status`` is ``failed``."""

    file_id: str
    status: str
    error: ErrorInfo | None = None


class BulkReply(Model):
    """``processed`` counts the successes; ``success`` is false only when there was none."""

    success: bool
    processed: int
    failed: int
    results: list[FileResult]


class Collection(Model):
    """A group of files. ``status`` follows the parsing of its files; ``total_size`` in bytes."""

    id: str
    name: str
    description: str
    status: CollectionStatus
    progress: int
    data_source_count: int
    total_size: int
    created_at: datetime
    updated_at: datetime


class CollectionFilesReply(Model):
    success: bool
    added: int
    failed: int
    results: list[FileResult]


class AvailableCollection(Model):
    id: str
    name: str
    description: str
    created_at: datetime
    datasource_count: int


class AvailableCollections(Model):
    success: bool
    collections: list[AvailableCollection]
    count: int


class Datasource(Model):
    id: str
    name: str
    type: str = "file-upload"
    status: FileStatus = "active"


class DatasourceSnapshot(Model):
    id: str
    name: str
    type: str = "file-upload"
    ingestion_status: str


class DatasourceError(Model):
    """Why a datasource could not be ingested. ``retryable``: another ingestion may succeed."""

    code: str
    message: str
    phase: str
    attempt: int
    retryable: bool


class KnowledgeBase(Model):
    """Documents made searchable. ``success_rate`` in percent; ``processing_metadata`` is empty when completed."""

    id: str
    name: str
    description: str
    processing_engine: str
    dataset_name: str
    normalized_dataset_name: str
    status: KnowledgeBaseStatus
    progress: int
    collection_ids: list[str]
    file_ids: list[str]
    datasources: list[Datasource]
    datasource_count: int
    total_datasources: int
    ingested_datasources: list[Datasource]
    failed_datasources: list[Datasource]
    datasource_errors: dict[str, DatasourceError]
    datasource_snapshots: dict[str, DatasourceSnapshot]
    success_rate: float
    chunking_strategy: dict[str, Any]
    embedding_config: dict[str, Any]
    llm_config: dict[str, Any]
    processing_metadata: dict[str, Any]
    created_by_name: str
    company_name: str
    created_at: datetime
    updated_at: datetime


class KnowledgeBaseState(Model):
    """``check_status``: ``status_updated`` tells whether the status changed since this caller last asked."""

    success: bool = True
    message: str
    knowledge_base: KnowledgeBase
    status_updated: bool


class SearchReply(Model):
    """Passages, best first; ``score`` 0 to 1."""

    success: bool = True
    query: str
    mode: SearchMode
    results: list[Citation]


class Artifact(Model):
    """A file of one session. ``url`` is a signed download link that works until ``url_expires_at``."""

    artifact_id: str
    session_id: str
    name: str
    content_type: str
    size: int
    sha256: str
    origin: ArtifactOrigin
    processing_strategy: ProcessingStrategy
    processing_status: ProcessingStatus
    error: ErrorInfo | None = None
    metadata: dict[str, Any] = {}
    platform_file_id: str | None = None
    created_at: datetime
    updated_at: datetime
    url: str
    url_expires_at: datetime


class ArtifactState(Model):
    """``progress`` in percent."""

    artifact_id: str
    processing_status: ProcessingStatus
    progress: int
    error: ErrorInfo | None = None


class ArtifactUrl(Model):
    """A signed link, good until ``expires_at``."""

    url: str
    expires_at: datetime


class Sheet(Model):
    """One table: ``headers`` and ``types`` of its columns, its first ``rows``, and how many rows there are."""

    name: str
    headers: list[str]
    types: list[str]
    rows: list[list[Any]]
    row_count: int


class ArtifactPreview(Model):
    sheets: list[Sheet]


class PlatformCopy(Model):
    """The reply to ``copy-to-platform`` and ``remove-from-platform``."""

    success: bool = True
    file_id: str


class ToolsetTool(Model):
    """A tool of a toolset, with the settings that hold for its calls."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    safe_to_repeat: bool = False
    approval: Approval = "never"
    timeout_seconds: float = 30.0
    retries: int = 2


class CallToolReply(Model):
    """The result of a call; ``output`` is the text that a model would get."""

    status: CallToolReplyStatus
    output: str
    seconds: float


class McpToolset(Model):
    safe_to_repeat: bool | None = None
    approval: Approval | None = None
    timeout_seconds: float | None = None
    retries: int | None = None
    name: str
    description: str
    tool_settings: dict[str, dict[str, Any]]
    version: int
    created_at: datetime
    updated_at: datetime
    refreshed_at: datetime
    warnings: list[ErrorDetail] = []
    type: Literal["mcp"]
    url: str
    headers: dict[str, str]
    allowed_tools: list[str] | None
    tools: list[ToolsetTool]


class OpenApiToolset(Model):
    """``document`` is in the answer to ``GET /toolsets/{name}/`` alone: it may be large."""

    safe_to_repeat: bool | None = None
    approval: Approval | None = None
    timeout_seconds: float | None = None
    retries: int | None = None
    name: str
    description: str
    tool_settings: dict[str, dict[str, Any]]
    version: int
    created_at: datetime
    updated_at: datetime
    refreshed_at: datetime
    warnings: list[ErrorDetail] = []
    type: Literal["openapi"]
    document: dict[str, Any] | str | None = None
    document_url: str | None
    base_url: str | None
    operations: list[str] | None
    headers: dict[str, str]
    tools: list[ToolsetTool]


class HttpToolsetTool(ToolsetTool):
    """A tool together with the request that it makes."""

    method: str
    url: str
    headers: dict[str, str]
    query: dict[str, Any]
    body: Any = None


class HttpToolset(Model):
    safe_to_repeat: bool | None = None
    approval: Approval | None = None
    timeout_seconds: float | None = None
    retries: int | None = None
    name: str
    description: str
    tool_settings: dict[str, dict[str, Any]]
    version: int
    created_at: datetime
    updated_at: datetime
    refreshed_at: datetime
    warnings: list[ErrorDetail] = []
    type: Literal["http"]
    tools: list[HttpToolsetTool]


class Secret(Model):
    """A secret without its value, which nobody gets to see again."""

    name: str
    created_at: datetime
    updated_at: datetime


class BudgetUse(Model):
    """Use of a budget in its period, by both measures."""

    cost: str = "0"
    tokens: int = 0


class Budget(Model):
    """A budget in its present period. ``renews_at`` is null for ``total``; without user and key it is the company's."""

    id: str
    description: str
    user_id: str | None = None
    key_id: str | None = None
    period: BudgetPeriod
    cost: str | None = None
    tokens: int | None = None
    warning_percent: int | None = None
    used: BudgetUse
    exceeded: bool
    period_started_at: datetime
    renews_at: datetime | None = None
    created_at: datetime
    updated_at: datetime


class Retention(Model):
    """Sessions without a turn for ``session_retention_days`` are deleted, with null none.

    It is the company's own number, else ``default_session_retention_days``, that of the installation.
    """

    session_retention_days: int | None
    default_session_retention_days: int | None


class Replica(Model):
    """One process. ``reason``: what it waits for, or why it couldn't be asked."""

    address: str
    status: ReplicaStatus
    version: str | None
    reason: str


class ServiceState(Model):
    """``ready`` of ``total`` replicas; ``replicas`` are listed for operators of the installation only."""

    service: str
    status: ServiceStateStatus
    ready: int
    total: int
    replicas: list[Replica]


class ServiceStates(Model):
    services: list[ServiceState]
    checked_at: datetime


class PartitionState(Model):
    """``committed`` is null before the group's first commit."""

    partition: int
    committed: int | None
    end: int
    lag: int


class ConsumerState(Model):
    """A consumer group at one topic. ``state`` is Kafka's state of the group."""

    group: str
    topic: str
    state: str
    members: int
    lag: int
    partitions: list[PartitionState]


class ConsumerStates(Model):
    consumers: list[ConsumerState]
    lag: int
    measured_at: datetime


class Failure(Model):
    """An event that reports an internal error. ``cause`` is the type and location of the exception behind it."""

    service: str
    type: str
    subject: str
    company_id: str
    correlation_id: str
    at: datetime
    cause: str


class FailureList(Model):
    """``unreachable`` services couldn't be asked."""

    failures: list[Failure]
    unreachable: list[str]


class DeadLetterCause(Model):
    """``code`` is the error's name, or ``poison_message`` for an unreadable message."""

    code: str
    message: str


class DeadLetter(Model):
    """A message that its consumer failed to process. ``replayed``: it has been sent again."""

    id: str
    topic: str
    source_topic: str
    consumer: str
    type: str | None
    event_id: str | None
    company_id: str | None
    correlation_id: str | None
    cause: DeadLetterCause
    attempts: int | None
    dead_since: datetime
    replayed: bool
    payload_bytes: int


class TopicLetters(Model):
    topic: str
    letters: int
    not_replayed: int


class DeadLetterList(Model):
    """``next`` goes into ``after``, null at the end. ``topics``, those with messages, is for operators only."""

    dead_letters: list[DeadLetter]
    has_more: bool
    next: str | None
    topics: list[TopicLetters]


class DeadLetterPayload(Model):
    """``value`` is JSON without secrets; null if ``note`` says why it is hidden."""

    value: Any
    note: str | None


class DeadLetterDetail(DeadLetter):
    """``partition`` and ``offset`` of the message in its topic; headers that may contain secrets are hidden."""

    partition: int | None
    offset: int | None
    headers: dict[str, str]
    payload: DeadLetterPayload


class ReplayResult(Model):
    """A replayed message. ``repeated``: it was replayed before, and nothing was sent now."""

    dead_letter: DeadLetter
    repeated: bool


class TokenReply(Model):
    """A bearer token, which isn't stored. It ends with its key at the latest."""

    access_token: str
    token_type: str = "Bearer"
    expires_in: int
    expires_at: datetime
    scopes: list[str]


class Connection(Model):
    """A connection. ``connection_key`` is public: web pages contain it. ``quota``: requests per minute."""

    id: str
    name: str
    connection_key: str
    agent_id: str
    agent_key: str
    allowed_origins: list[str]
    scopes: list[str]
    quota: int | None
    user_id: str
    created_at: datetime
    expires_at: datetime | None


class Key(Model):
    """An API key. ``prefix`` is the start of its secret; ``rate_limit``: requests per minute, null for no limit."""

    id: str
    name: str
    prefix: str
    scopes: list[str]
    user_id: str
    rate_limit: int | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    successor_id: str | None


class IssuedKeyReply(Key):
    """A new key with its secret, which is only returned this once."""

    secret: str


class LimitOfCompany(Model):
    """`limit` is null if there is none, `used` while the service that counts doesn't answer."""

    limit: int | None
    used: int | None


class Me(Model):
    """The credential's owner and rights, and the company's limits with their use.

    For rates, `used` counts requests or turns not yet refilled: a sixtieth of the limit returns every second. Each
    gateway reserves some in advance, so up to a twentieth per gateway may be unused.
    """

    user_id: str
    user_name: str
    company_id: str
    company_name: str
    key_id: str
    scopes: list[str]
    rate_limit: int | None
    expires_at: datetime | None
    limits: dict[str, LimitOfCompany]


class TurnCancelledReply(Model):
    success: bool = True
    turn_id: str
    session_id: str
    status: str


class TimelineEventView(Model):
    """An event of the timeline. `position` counts the company's events; `type` has no prefix or version."""

    id: str
    position: int
    type: str
    source: str
    subject: str
    sequence: int
    time: datetime
    correlation_id: str
    causation_id: str | None
    session_id: str | None = None
    turn_id: str | None = None
    data: dict[str, Any]


class UsageTotals(Model):
    """Sums over turns. ``cost`` in the currency of the prices, without the ``unpriced_turns``."""

    turns: int
    input_tokens: int
    output_tokens: int
    tool_calls: int
    seconds: float
    cost: str
    unpriced_turns: int


class UsageItem(UsageTotals):
    """A group, named by the fields that were asked for; null where a turn has none."""

    day: str | None = None
    agent_id: str | None = None
    model: str | None = None
    user_id: str | None = None
    key_id: str | None = None


class UsageReport(Model):
    """Usage ``from`` one time ``to`` before another; ``total`` counts all groups."""

    begin: datetime = Field(alias="from")
    end: datetime = Field(alias="to")
    group_by: list[str]
    usage: list[UsageItem]
    totals: UsageTotals
    total: int
    has_more: bool


class Webhook(Model):
    """A webhook. ``company_wide``: it gets events of all users' private sessions, as its maker could see them.

    ``failing_since`` is null unless the last attempts to deliver failed; then it is the time of the first of them.
    """

    id: str
    url: str
    event_types: list[str]
    description: str
    status: WebhookStatus
    disabled_reason: DisabledReason | None
    failing_since: datetime | None
    company_wide: bool
    user_id: str
    created_at: datetime
    updated_at: datetime


class IssuedWebhookReply(Webhook):
    """A webhook with its newest secret, which is shown this once."""

    secret: str


class Delivery(Model):
    """An event on its way to a webhook.

    ``next_attempt_at`` is null for one that waits for an earlier event of its subject. ``last_response`` is the
    beginning of the last answer, or why there was none.
    """

    id: str
    event_id: str
    type: str
    status: DeliveryStatus
    attempts: int
    next_attempt_at: datetime | None
    last_status: int | None
    last_response: str | None
    created_at: datetime


Toolset = Annotated[McpToolset | OpenApiToolset | HttpToolset, Field(discriminator="type")]

TURN_EVENTS: dict[str, type[Model]] = {
    "turn.queued": TurnQueued,
    "turn.started": TurnStarted,
    "turn.restarted": TurnRestarted,
    "turn.completed": TurnCompleted,
    "turn.failed": TurnFailed,
    "turn.cancelled": TurnCancelled,
    "turn.tool_call.started": ToolCallStarted,
    "turn.tool_call.completed": ToolCallCompleted,
    "turn.tool_call.failed": ToolCallFailed,
    "turn.action_required": TurnActionRequired,
    "turn.action_resolved": TurnActionResolved,
    "turn.output_invalid": OutputInvalid,
    "turn.citation.added": CitationAdded,
    "turn.output_text.delta": OutputTextDelta,
    "turn.output_text.done": OutputTextDone,
}
