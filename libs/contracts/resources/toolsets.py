"""Toolsets, which contain custom tools."""

import re
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from libs.contracts.errors import ErrorDetail
from libs.contracts.messages import BodyCommand, Command, Event
from libs.contracts.models import JsonObject, StrictModel
from libs.contracts.pages import ListPage
from libs.contracts.resources.agents import Approval, CallRetries, CallSeconds
from libs.contracts.resources.secrets import NAME_PATTERN
from libs.contracts.timestamps import Timestamp

EXAMPLE_ENVELOPE: Final = {"owner_id": None, "subject": "01980f62-1c3e-7a4d-9b2f-6e7d8c9b0a1f"}

MAX_DOCUMENT_BYTES: Final = 2_000_000
MAX_TOOLS: Final = 500
DEFAULT_SECONDS: Final = 30.0
DEFAULT_RETRIES: Final = 2
SECRET_REFERENCE: Final = re.compile(rf"\$\{{secret:({NAME_PATTERN})\}}")
"""A reference in a header's value: ``${secret:NAME}``."""

ToolsetType = Literal["mcp", "openapi", "http"]
ToolsetName = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
ToolName = Annotated[str, Field(min_length=1, max_length=150)]
HeaderName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")]
HeaderValue = Annotated[str, Field(max_length=8_000, pattern=r"^[^\x00-\x08\x0a-\x1f\x7f]*$")]
Headers = Annotated[dict[HeaderName, HeaderValue], Field(max_length=50)]
Url = Annotated[str, Field(min_length=1, max_length=4_000, pattern=r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s/?#]+[^\s]*$")]
Description = Annotated[str, Field(max_length=10_000)]


class _CallSettings(BaseModel):
    safe_to_repeat: bool | None = None
    approval: Approval | None = None
    timeout_seconds: CallSeconds | None = None
    retries: CallRetries | None = None


class CallSettings(_CallSettings, StrictModel):
    """Settings for tool calls. Omitted settings use the tool's defaults.

    ``safe_to_repeat`` defaults to true for GET requests and for tools with the MCP hints ``idempotentHint`` or
    ``readOnlyHint``.
    """


class _Body(CallSettings):
    """The common fields of toolsets. ``description`` is for human readers.

    Call settings apply to every tool. ``tool_settings`` overrides them by tool name.
    """

    name: ToolsetName
    description: Description = ""
    tool_settings: dict[ToolName, CallSettings] = Field(default={}, max_length=MAX_TOOLS)


class McpToolsetBody(_Body):
    """The tools of an MCP server that uses streamable HTTP, limited to ``allowed_tools`` if set."""

    type: Literal["mcp"]
    url: Url
    headers: Headers = {}
    allowed_tools: list[ToolName] | None = Field(default=None, min_length=1, max_length=MAX_TOOLS)


class OpenApiToolsetBody(_Body):
    """The operations of an OpenAPI 3.0 or 3.1 document, given inline or by URL, limited to ``operations`` if set.

    Specify an operation by its ``operationId``, or by method and path, such as ``GET /tickets/{id}``.
    """

    type: Literal["openapi"]
    document: JsonObject | str | None = None
    document_url: Url | None = None
    base_url: Url | None = None
    operations: list[ToolName] | None = Field(default=None, min_length=1, max_length=MAX_TOOLS)
    headers: Headers = {}


class HttpTool(CallSettings):
    """A tool that sends one HTTP request. ``url``, ``query`` and ``body`` can contain ``{argument}`` placeholders.

    A placeholder that is an entire JSON value keeps its argument's type.
    """

    name: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")
    description: Description = ""
    parameters: JsonObject = {}
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    url: Url
    headers: Headers = {}
    query: dict[str, Any] = Field(default={}, max_length=100)
    body: Any = None


class HttpToolsetBody(_Body):
    """Tools that each send one HTTP request."""

    type: Literal["http"]
    tools: list[HttpTool] = Field(min_length=1, max_length=MAX_TOOLS)


ToolsetBody = McpToolsetBody | OpenApiToolsetBody | HttpToolsetBody


class CreateToolsetBody(RootModel[Annotated[ToolsetBody, Field(discriminator="type")]]):
    """The body of ``POST /toolsets/``. ``type`` determines the other fields."""

    # Headers may contain credentials, which tracebacks in logs must not quote.
    model_config = ConfigDict(hide_input_in_errors=True)

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "an MCP server": {
            "name": "tickets",
            "description": "Passenger tickets.",
            "type": "mcp",
            "url": "https://tickets.example.com/mcp",
            "headers": {"Authorization": "Bearer ${secret:TICKETS_TOKEN}"},
            "timeout_seconds": 10.0,
            "tool_settings": {"close_ticket": {"approval": "always"}},
        },
        "an OpenAPI document": {
            "name": "harbour",
            "type": "openapi",
            "document_url": "https://harbour.example.com/openapi.json",
            "operations": ["listBerths", "GET /ships/{id}"],
        },
        "HTTP requests": {
            "name": "fares",
            "type": "http",
            "tools": [
                {
                    "name": "fare",
                    "description": "The fare of a crossing.",
                    "parameters": {
                        "type": "object",
                        "properties": {"crossing": {"type": "string"}, "cars": {"type": "integer"}},
                        "required": ["crossing"],
                    },
                    "method": "GET",
                    "url": "https://fares.example.com/crossings/{crossing}",
                    "query": {"cars": "{cars}"},
                }
            ],
        },
    }


class UpdateToolsetBody(CallSettings):
    """The body of ``PATCH /toolsets/{name}/``. Omitted fields keep their values.

    ``null`` clears an optional field. The name and type can't be changed. Setting ``document`` clears ``document_url``,
    and vice versa.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "an approval": {"tool_settings": {"close_ticket": {"approval": "always"}}},
        "fewer tools": {"allowed_tools": ["find_tickets"]},
    }

    description: Description | None = None
    tool_settings: dict[ToolName, CallSettings] | None = Field(default=None, max_length=MAX_TOOLS)
    url: Url | None = None
    headers: Headers | None = None
    allowed_tools: list[ToolName] | None = Field(default=None, min_length=1, max_length=MAX_TOOLS)
    document: JsonObject | str | None = None
    document_url: Url | None = None
    base_url: Url | None = None
    operations: list[ToolName] | None = Field(default=None, min_length=1, max_length=MAX_TOOLS)
    tools: list[HttpTool] | None = Field(default=None, min_length=1, max_length=MAX_TOOLS)


class ToolsetTool(BaseModel):
    """A tool of a toolset, with its effective call settings."""

    name: str
    description: str = ""
    parameters: JsonObject = {}
    safe_to_repeat: bool = False
    approval: Approval = "never"
    timeout_seconds: float = DEFAULT_SECONDS
    retries: int = DEFAULT_RETRIES


class ConnectedTool(ToolsetTool):
    """Internal: a tool, as created by one of the runtime's connectors.

    ``binding`` is the connector's own data for calls, such as the compiled request of an OpenAPI operation.
    """

    binding: JsonObject | None = None


class ConnectedToolset(BaseModel):
    """Internal: a version of a toolset, as the runtime gets it for turns, discovery and test calls.

    ``config`` is the toolset's body without the name and type; only discovery gets the ``document``. ``secrets`` are
    the base64 ciphertexts of the secrets used in headers, by name. Secrets that don't exist are omitted.
    """

    name: str
    version: int
    type: ToolsetType
    config: JsonObject
    tools: list[ConnectedTool] = []
    secrets: dict[str, str] = {}


class ConnectedToolsets(BaseModel):
    """Internal: the requested toolsets, without those that don't exist."""

    toolsets: list[ConnectedToolset]


class LeftOutTool(BaseModel):
    """Internal: a tool that can't be used and was skipped, and the reason. ``name`` may be invalid."""

    name: str
    reason: str

    @classmethod
    def of(cls, name: str, reason: str) -> "LeftOutTool":
        return cls(name=name[:200], reason=reason[:500])


class DiscoveredTools(BaseModel):
    """Internal: the tools that a target offers or that an OpenAPI document describes, with their default settings."""

    tools: list[ConnectedTool]
    left_out: list[LeftOutTool] = []


class TryToolCall(BaseModel):
    """Internal: a single tool call outside any turn, sent at most once. ``call_id`` is its idempotency key."""

    toolset: ConnectedToolset
    tool: str
    arguments: JsonObject = {}
    call_id: str = ""


class CallToolBody(StrictModel):
    """The body of ``POST /toolsets/{name}/tools/{tool}/call/``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"a passenger": {"arguments": {"passenger": "Ada"}}}

    arguments: JsonObject = {}


class CallToolReply(BaseModel):
    """The result of a tool call. ``output`` is the text that a model would receive."""

    status: Literal["completed", "failed"]
    output: str
    seconds: float


class _Toolset(_CallSettings):
    """A version of a toolset. Its tools were last fetched at ``refreshed_at``.

    ``warnings`` lists the target's tools that can't be used and were skipped.
    """

    name: str
    description: str
    tool_settings: dict[str, JsonObject]
    version: int
    created_at: Timestamp
    updated_at: Timestamp
    refreshed_at: Timestamp
    warnings: list[ErrorDetail] = []


class McpToolset(_Toolset):
    """A toolset with the tools of an MCP server."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "an MCP server": {
            "name": "tickets",
            "description": "Passenger tickets.",
            "timeout_seconds": 10.0,
            "tool_settings": {"close_ticket": {"approval": "always"}},
            "version": 1,
            "created_at": "2026-05-04T08:20:11.004120Z",
            "updated_at": "2026-05-04T08:20:11.004120Z",
            "refreshed_at": "2026-05-04T08:20:11.004120Z",
            "type": "mcp",
            "url": "https://tickets.example.com/mcp",
            "headers": {"Authorization": "Bearer ${secret:TICKETS_TOKEN}"},
            "allowed_tools": None,
            "tools": [
                {
                    "name": "find_tickets",
                    "description": "Finds tickets by passenger.",
                    "parameters": {
                        "type": "object",
                        "properties": {"passenger": {"type": "string"}},
                        "required": ["passenger"],
                    },
                    "safe_to_repeat": True,
                    "timeout_seconds": 10.0,
                },
                {
                    "name": "close_ticket",
                    "description": "Closes a ticket.",
                    "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
                    "safe_to_repeat": False,
                    "approval": "always",
                    "timeout_seconds": 10.0,
                },
            ],
        }
    }

    type: Literal["mcp"]
    url: str
    headers: dict[str, str]
    allowed_tools: list[str] | None
    tools: list[ToolsetTool]


class OpenApiToolset(_Toolset):
    """A toolset with the operations of an OpenAPI document.

    Only ``GET /toolsets/{name}/`` returns ``document``, which may be large.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "an OpenAPI document": {
            "name": "harbour",
            "description": "",
            "tool_settings": {},
            "version": 3,
            "created_at": "2026-05-04T08:20:11.004120Z",
            "updated_at": "2026-05-04T09:30:00.000000Z",
            "refreshed_at": "2026-05-05T06:00:00.500000Z",
            "type": "openapi",
            "document_url": "https://harbour.example.com/openapi.json",
            "base_url": None,
            "operations": ["listBerths"],
            "headers": {"X-Api-Key": "${secret:HARBOUR_KEY}"},
            "tools": [
                {
                    "name": "listBerths",
                    "description": "Berths and the ships moored at them.",
                    "parameters": {"type": "object", "properties": {}},
                    "safe_to_repeat": True,
                }
            ],
        }
    }

    type: Literal["openapi"]
    document: JsonObject | str | None = None
    document_url: str | None
    base_url: str | None
    operations: list[str] | None
    headers: dict[str, str]
    tools: list[ToolsetTool]


class HttpToolsetTool(ToolsetTool):
    """A tool and the HTTP request that it sends."""

    method: str
    url: str
    headers: dict[str, str]
    query: dict[str, Any]
    body: Any = None


class HttpToolset(_Toolset):
    """A toolset whose tools each send one HTTP request."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "HTTP requests": {
            "name": "fares",
            "description": "",
            "tool_settings": {},
            "version": 2,
            "created_at": "2026-05-04T08:20:11.004120Z",
            "updated_at": "2026-05-04T09:00:00.120000Z",
            "refreshed_at": "2026-05-04T09:00:00.120000Z",
            "type": "http",
            "tools": [
                {
                    "name": "fare",
                    "description": "The fare of a crossing.",
                    "parameters": {
                        "type": "object",
                        "properties": {"crossing": {"type": "string"}, "cars": {"type": "integer"}},
                        "required": ["crossing"],
                    },
                    "safe_to_repeat": True,
                    "method": "GET",
                    "url": "https://fares.example.com/crossings/{crossing}",
                    "headers": {},
                    "query": {"cars": "{cars}"},
                }
            ],
        }
    }

    type: Literal["http"]
    tools: list[HttpToolsetTool]


Toolset = Annotated[McpToolset | OpenApiToolset | HttpToolset, Field(discriminator="type")]


class ToolsetPage(ListPage):
    toolsets: list[Toolset]


class ToolsetCreated(Event, type="aes.registry.toolset.created.v1"):
    """A toolset was created."""

    toolset: Toolset


class ToolsetUpdated(Event, type="aes.registry.toolset.updated.v1"):
    """A toolset was updated. ``version`` increases if anything changed."""

    EXAMPLES: ClassVar[dict[str, Any]] = {name: {"toolset": toolset} for name, toolset in HttpToolset.EXAMPLES.items()}

    toolset: Toolset


class ToolsetRefreshed(Event, type="aes.registry.toolset.refreshed.v1"):
    """A toolset's tools were fetched again. ``version`` increases if they changed."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        name: {"toolset": toolset} for name, toolset in OpenApiToolset.EXAMPLES.items()
    }

    toolset: Toolset


class ToolsetDeleted(Event, type="aes.registry.toolset.deleted.v1"):
    """A toolset was deleted."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"an MCP server": {"name": "tickets"}}

    name: str


class CreateToolset(BodyCommand, type="aes.registry.create_toolset.v1", outcomes=(ToolsetCreated,)):
    """Create a toolset and fetch its tools."""

    EXAMPLES: ClassVar[dict[str, Any]] = {name: {"toolset": body} for name, body in CreateToolsetBody.EXAMPLES.items()}

    toolset: CreateToolsetBody


class UpdateToolset(BodyCommand, type="aes.registry.update_toolset.v1", outcomes=(ToolsetUpdated,)):
    """Update a toolset. Omitted fields of ``changes`` keep their values."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        name: {"name": "tickets", "changes": body} for name, body in UpdateToolsetBody.EXAMPLES.items()
    }

    name: str
    changes: UpdateToolsetBody


class RefreshToolset(Command, type="aes.registry.refresh_toolset.v1", outcomes=(ToolsetRefreshed,)):
    """Fetch a toolset's tools again."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"an MCP server": {"name": "tickets"}}

    name: str


class DeleteToolset(Command, type="aes.registry.delete_toolset.v1", outcomes=(ToolsetDeleted,)):
    """Delete a toolset."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"an MCP server": {"name": "tickets"}}

    name: str
