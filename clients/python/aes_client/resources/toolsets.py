"""Toolsets: custom tools of MCP servers, OpenAPI documents and HTTP requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aes_client import operations
from aes_client.models import CallToolReply
from aes_client.requests import Request, one, path_of
from aes_client.resource import R, operation

# The service allows two minutes for a test call.
_TRIAL_SECONDS = 180.0


class Toolsets(operations.Toolsets[R]):
    """The operations of ``client.toolsets``."""

    @operation
    def call(self, name: str, tool: str, arguments: Mapping[str, Any] | None = None) -> Request[CallToolReply]:
        """Calls a tool to test it, and returns the result. The call isn't retried once it may have been sent."""
        path, body = path_of("/toolsets/{name}/tools/{tool}/call/", name, tool), {"arguments": dict(arguments or {})}
        answer = one(CallToolReply)
        return Request("POST", path, answer, body=body, repeat="unless_sent", timeout=_TRIAL_SECONDS)
