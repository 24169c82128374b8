"""Stored toolsets and their versions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter

from libs.contracts.errors import ErrorDetail, NotFound
from libs.contracts.resources.toolsets import (
    SECRET_REFERENCE,
    CallSettings,
    ConnectedTool,
    ConnectedToolset,
    CreateToolsetBody,
    HttpToolsetBody,
    McpToolsetBody,
    OpenApiToolsetBody,
    Toolset,
    ToolsetBody,
    ToolsetType,
    UpdateToolsetBody,
)
from libs.contracts.timestamps import format_time

MOST_TOOLSETS: Final = 100
"""The maximum number of toolsets per company."""
_TOOLSET: Final[TypeAdapter[Toolset]] = TypeAdapter(Toolset)
_SETTINGS: Final = tuple(CallSettings.model_fields)
_APART: Final = frozenset({"name", "type"})
BODY_TYPES: Final[dict[ToolsetType, type[ToolsetBody]]] = {
    "mcp": McpToolsetBody,
    "openapi": OpenApiToolsetBody,
    "http": HttpToolsetBody,
}


class ToolsetNotFound(NotFound):
    """The caller's company has no toolset with this name."""

    def __init__(self) -> None:
        super().__init__("There is no toolset with this name.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredToolset:
    """A version of a toolset.

    ``config`` contains the body's fields except the name and type. ``tools`` are the target's tools with their call
    settings. ``warnings`` are about the target's tools that were skipped. Times have a time zone.
    """

    id: str
    company_id: str
    name: str
    type: ToolsetType
    version: int
    config: Mapping[str, Any]
    tools: tuple[ConnectedTool, ...]
    created_at: datetime
    updated_at: datetime
    refreshed_at: datetime
    warnings: tuple[ErrorDetail, ...] = ()

    @property
    def body(self) -> ToolsetBody:
        """Returns the request body that would create this toolset."""
        return CreateToolsetBody.model_validate(self._fields).root

    @property
    def _fields(self) -> dict[str, Any]:
        return {"name": self.name, "type": self.type, **self.config}

    def changed(
        self, body: ToolsetBody, tools: Sequence[ConnectedTool], now: datetime, warnings: Sequence[ErrorDetail] = ()
    ) -> "StoredToolset":
        """Returns a copy with this configuration and these tools. If either differs, the version number increases."""
        config, found = config_of(body), settled(tools, body)
        refreshed = replace(self, refreshed_at=now, warnings=tuple(warnings))
        if (config, found) == (dict(self.config), self.tools):
            return refreshed
        return replace(refreshed, config=config, tools=found, version=self.version + 1, updated_at=now)

    def merged(self, changes: UpdateToolsetBody) -> dict[str, Any]:
        """Returns the toolset's body with the changes. A field that is changed to null is removed."""
        given = changes.model_dump(mode="json", exclude_unset=True)
        body = {**self._fields, **given}
        for one, other in (("document", "document_url"), ("document_url", "document")):
            if given.get(one) is not None and other not in given:
                body.pop(other, None)
        return {name: value for name, value in body.items() if value is not None}

    def public(self, *, with_document: bool = False) -> Toolset:
        body = self.body
        described = body.model_dump(mode="json")
        if not with_document:
            described.pop("document", None)
        tools = [tool.model_dump(exclude={"binding"}) for tool in self.tools]
        if self.type == "http":
            requests = {tool["name"]: tool for tool in described["tools"]}
            tools = [{**requests[tool["name"]], **tool} for tool in tools]
        return _TOOLSET.validate_python(
            {
                **described,
                "tool_settings": {
                    name: settings.model_dump(exclude_none=True) for name, settings in body.tool_settings.items()
                },
                "tools": tools,
                "version": self.version,
                "created_at": format_time(self.created_at),
                "updated_at": format_time(self.updated_at),
                "refreshed_at": format_time(self.refreshed_at),
                "warnings": [warning.model_dump() for warning in self.warnings],
            }
        )

    def connected(self, secrets: Mapping[str, str]) -> ConnectedToolset:
        """Returns what the runtime needs to call the tools. ``secrets`` contains Base64 ciphertexts by name."""
        config = {name: value for name, value in self.config.items() if name != "document"}
        return ConnectedToolset(
            name=self.name,
            version=self.version,
            type=self.type,
            config=config,
            tools=list(self.tools),
            secrets={name: secrets[name] for name in secret_names(self.config) if name in secrets},
        )


def new_toolset(
    *,
    toolset_id: str,
    company_id: str,
    body: ToolsetBody,
    tools: Sequence[ConnectedTool],
    now: datetime,
    warnings: Sequence[ErrorDetail] = (),
) -> StoredToolset:
    """Returns the first version of a new toolset."""
    return StoredToolset(
        id=toolset_id,
        company_id=company_id,
        name=body.name,
        type=body.type,
        version=1,
        config=config_of(body),
        tools=settled(tools, body),
        created_at=now,
        updated_at=now,
        refreshed_at=now,
        warnings=tuple(warnings),
    )


def config_of(body: ToolsetBody) -> dict[str, Any]:
    """Returns the body's fields that are set, except the name and type."""
    return body.model_dump(mode="json", exclude=set(_APART), exclude_unset=True, exclude_none=True)


def settled(tools: Sequence[ConnectedTool], body: ToolsetBody) -> tuple[ConnectedTool, ...]:
    """Applies the toolset's settings to the tools. Settings of a single tool override those of all tools."""
    own: Mapping[str, CallSettings] = {tool.name: tool for tool in body.tools} if body.type == "http" else {}
    return tuple(_settled(tool, (own.get(tool.name), body.tool_settings.get(tool.name), body)) for tool in tools)


def _settled(tool: ConnectedTool, sources: Sequence[CallSettings | None]) -> ConnectedTool:
    given = {
        name: next((value for each in sources if (value := getattr(each, name, None)) is not None), None)
        for name in _SETTINGS
    }
    return tool.model_copy(update={name: value for name, value in given.items() if value is not None})


def secret_names(config: Mapping[str, Any]) -> list[str]:
    """Returns the names of the secrets that headers refer to, without duplicates."""
    headers = [config.get("headers", {}), *(tool.get("headers", {}) for tool in config.get("tools", ()))]
    values = [value for each in headers for value in each.values()]
    return list(dict.fromkeys(name for value in values for name in SECRET_REFERENCE.findall(value)))


def require(toolset: StoredToolset | None) -> StoredToolset:
    """Returns the toolset. Raises ``ToolsetNotFound`` if it's None."""
    if toolset is None:
        raise ToolsetNotFound()
    return toolset
