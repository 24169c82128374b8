"""MCP requests, as tools and resources see them."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from libs.contracts.identity import Identity
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import IdempotentRequest, Write
from services.gateway.entrypoints.door.writes import repeatable

RequestId = str | int
_METHOD, _PATH = "POST", "/mcp"


@dataclass(slots=True)
class Caller:
    """The sender of a request. ``has_left``: whether the client closed the connection before the response.

    ``connection``: the ID that the server assigned to the connection, in protocol versions with such an ID.
    """

    principal: Principal
    write: Write
    connection: str | None = None
    has_left: bool = False

    @property
    def identity(self) -> Identity:
        return self.principal.identity

    def named(self, request_id: RequestId | None, values: Any = None) -> IdempotentRequest | None:
        """Returns the record by which a cancellation finds the request's turn.

        Returns None without a connection ID: such clients cancel a request by closing the connection.
        """
        if self.connection is None or request_id is None:
            return None
        key = hashlib.sha256(orjson.dumps([self.connection, request_id])).hexdigest()
        return repeatable(self.principal, _METHOD, _PATH, key, values)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. ``is_followed``: whether the client has requested progress, which ``tell`` reports.

    ``key``: an idempotency key, which makes the call safe to retry.
    """

    caller: Caller
    tell: Callable[[str], Awaitable[None]]
    is_followed: bool = False
    request_id: RequestId | None = None
    key: str | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether the client has cancelled the call by closing the connection."""
        return self.caller.connection is None and self.caller.has_left

    def write(self, values: Any) -> Write:
        """Raises ``InvalidRequest`` for an invalid idempotency key."""
        if self.key is not None:
            request: IdempotentRequest | None = repeatable(self.caller.principal, _METHOD, _PATH, self.key, values)
        else:
            request = self.caller.named(self.request_id, values)
        return replace(self.caller.write, request=request)
