"""Toolsets of custom tools, and the secrets that their headers refer to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aes_client.flows import Emitting
from aes_client.models import CallToolReply, HttpToolset, McpToolset, OpenApiToolset, Secret, Toolset
from aes_client.requests import Answer, Request, nothing, one, path_of, validated
from aes_client.resource import R, Resource, iteration, operation

if TYPE_CHECKING:
    import httpx
    from typing_extensions import Unpack

    from aes_client import params

AnyToolset = McpToolset | OpenApiToolset | HttpToolset
# The service asks a toolset's target for its tools before it answers, and has two minutes to try a tool.
_DISCOVERY_SECONDS, _TRIAL_SECONDS = 60.0, 180.0


class Toolsets(Resource[R]):
    """``client.toolsets``."""

    @operation
    def create(self, toolset: params.ToolsetBody | Mapping[str, Any]) -> Request[AnyToolset]:
        """Makes a toolset of an MCP server, an OpenAPI document, or HTTP requests; its target is asked at once."""
        return Request("POST", "/toolsets/", _toolset, body=dict(toolset), timeout=_DISCOVERY_SECONDS)

    @operation
    def get(self, name: str) -> Request[AnyToolset]:
        return Request("GET", _path(name), _toolset)

    @iteration
    def list(self) -> Emitting[AnyToolset]:
        """Yields toolsets, by name."""
        yield from self._pages("/toolsets/", "toolsets", Toolset, {})

    @operation
    def update(self, name: str, **changes: Unpack[params.UpdateToolsetBody]) -> Request[AnyToolset]:
        """Changes what is given; ``None`` removes it."""
        return Request("PATCH", _path(name), _toolset, body=dict(changes), timeout=_DISCOVERY_SECONDS)

    @operation
    def refresh(self, name: str) -> Request[AnyToolset]:
        """Asks the target for its tools again."""
        return Request("POST", f"{_path(name)}refresh/", _toolset, timeout=_DISCOVERY_SECONDS)

    @operation
    def delete(self, name: str) -> Request[None]:
        return Request("DELETE", _path(name), nothing)

    @operation
    def call(self, name: str, tool: str, arguments: Mapping[str, Any] | None = None) -> Request[CallToolReply]:
        """Tries a tool, at most once: nothing is repeated that may have been sent."""
        path = _path(name) + path_of("tools/{tool}/call/", tool=tool)
        answer: Answer[CallToolReply] = one(CallToolReply)
        body = {"arguments": dict(arguments or {})}
        return Request("POST", path, answer, body=body, repeat="unless_sent", timeout=_TRIAL_SECONDS)


class Secrets(Resource[R]):
    """``client.secrets``: values for headers of toolsets, as ``${secret:NAME}``. They are never shown again."""

    @operation
    def put(self, name: str, value: str) -> Request[Secret]:
        return Request("PUT", path_of("/secrets/{name}/", name=name), one(Secret), body={"value": value})

    @operation
    def get(self, name: str) -> Request[Secret]:
        """Returns the name and times of a secret."""
        return Request("GET", path_of("/secrets/{name}/", name=name), one(Secret))

    @iteration
    def list(self) -> Emitting[Secret]:
        """Yields names and times of secrets, by name."""
        yield from self._pages("/secrets/", "secrets", Secret, {})

    @operation
    def delete(self, name: str) -> Request[None]:
        return Request("DELETE", path_of("/secrets/{name}/", name=name), nothing)


def _toolset(response: httpx.Response) -> AnyToolset:
    found: AnyToolset = validated(Toolset, response)
    return found


def _path(name: str) -> str:
    return path_of("/toolsets/{name}/", name=name)
