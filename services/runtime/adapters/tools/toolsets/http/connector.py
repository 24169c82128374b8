"""Connects toolsets of type `http`, which describe each tool's request."""

from collections.abc import Iterator
from typing import Final

from pydantic import ValidationError

from libs.contracts.errors import validation_message
from libs.contracts.resources.toolsets import ConnectedTool, DiscoveredTools, HttpTool
from libs.json_schema import SchemaInvalid, compile_schema
from libs.outbound import UnusableUrl, parse_url
from services.runtime.adapters.tools.toolsets.http.templates import RequestTemplate
from services.runtime.adapters.tools.toolsets.http_target import HttpTarget
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolOutput
from services.runtime.domain.toolsets import RESERVED_HEADERS, Toolset, ToolsetUnusable

_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})


class HttpConnector:
    """Implements ToolsetConnector. Discovering tools doesn't call the target."""

    def __init__(self, target: HttpTarget) -> None:
        self._target = target

    async def discover(self, toolset: Toolset, /) -> DiscoveredTools:
        try:
            described = [HttpTool.model_validate(item) for item in toolset.config.get("tools") or ()]
        except ValidationError as problem:
            raise ToolsetUnusable(f"Invalid field tools: {validation_message(problem.errors()[0])}.") from None
        names = [tool.name for tool in described]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ToolsetUnusable(f"Invalid field tools: two tools are named {twice[0]!r}. Rename one of them.")
        return DiscoveredTools(tools=[_compiled(tool) for tool in described])

    async def call(
        self, toolset: Toolset, tool: ConnectedTool, arguments: JsonObject, context: ToolContext, /
    ) -> ToolOutput:
        request = RequestTemplate.model_validate(tool.binding or {}).request(arguments)
        return await self._target.send(request, toolset, tool, context)


def _compiled(tool: HttpTool) -> ConnectedTool:
    template = RequestTemplate(method=tool.method, url=tool.url, headers=tool.headers, query=tool.query, body=tool.body)
    parameters = tool.parameters or _parameters_of(template)
    if problem := next(_problems(tool, parameters, template), None):
        raise ToolsetUnusable(f"Tool {tool.name!r}: {problem}")
    settings = tool.model_dump(include={"approval", "timeout_seconds", "retries"}, exclude_none=True)
    safe = tool.method in _SAFE_METHODS if tool.safe_to_repeat is None else tool.safe_to_repeat
    return ConnectedTool(
        name=tool.name,
        description=tool.description,
        parameters=parameters,
        safe_to_repeat=safe,
        binding=template.model_dump(),
        **settings,
    )


def _problems(tool: HttpTool, parameters: JsonObject, template: RequestTemplate) -> Iterator[str]:
    """Yields what makes the tool unusable."""
    scheme, _, rest = tool.url.partition("://")
    host = rest.partition("?")[0].partition("#")[0].partition("/")[0]
    # The host receives secrets, so a model must not choose it.
    if "{" in scheme or "{" in host:
        yield "`url` can have placeholders in its path and query only."
    try:
        parse_url(f"{scheme}://{host}/")
    except UnusableUrl as problem:
        yield f"url: {problem}."
    if reserved := sorted(name for name in tool.headers if name.lower() in RESERVED_HEADERS):
        yield f"the service sets the header {reserved[0]!r} itself. Remove it from `headers`."
    if parameters.get("type") != "object":
        yield "`parameters` must be a schema of type `object`."
    try:
        compile_schema(parameters)
    except SchemaInvalid as problem:
        yield f"parameters: {problem}."
    known = parameters.get("properties")
    missing = sorted(template.placeholders() - set(known if isinstance(known, dict) else ()))
    if missing and not any(name in parameters for name in ("$ref", "allOf", "anyOf", "oneOf", "patternProperties")):
        yield f"the schema in `parameters` has no property {missing[0]!r}. Add it, or remove the placeholder."


def _parameters_of(template: RequestTemplate) -> JsonObject:
    """Returns the default schema: a parameter for each placeholder. Those in the path are required."""
    names = sorted(template.placeholders())
    in_path = RequestTemplate(method="", url=template.url.partition("?")[0]).placeholders()
    return {
        "type": "object",
        "properties": {name: {} for name in names},
        "required": sorted(in_path),
        "additionalProperties": False,
    }
