"""Requests of MCP clients, as seen by tools and resources."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from libs.contracts.identity import Identity
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import IdempotentRequest, Write
from services.gateway.entrypoints.door.writes import correlation_id, repeatable

RequestId = str | int
_METHOD, _PATH = "POST", "/mcp"


@dataclass(slots=True)
class Caller:
    """The sender of a request. ``has_left``: the connection was closed before the response.

    ``connection``: the ID that this server gave the client's connection, in versions of the protocol that use one.
    """

    principal: Principal
    traceparent: str | None = None
    connection: str | None = None
    has_left: bool = False

    @property
    def identity(self) -> Identity:
        return self.principal.identity

    def write(self) -> Write:
        return Write(identity=self.identity, correlation_id=correlation_id(), traceparent=self.traceparent)

    def named(self, request_id: RequestId | None, values: Any = None) -> IdempotentRequest | None:
        """Returns the name under which a client cancels a request; None if it cancels by closing the connection."""
        if self.connection is None or request_id is None:
            return None
        key = hashlib.sha256(orjson.dumps([self.connection, request_id])).hexdigest()
        return repeatable(self.principal, _METHOD, _PATH, key, values)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. ``tell`` reports progress to a client that requested it (``is_followed``).

    ``key``: an idempotency key, with which a client retries the same call.
    """

    caller: Caller
    tell: Callable[[str], Awaitable[None]]
    is_followed: bool = False
    request_id: RequestId | None = None
    key: str | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether the client has closed the connection, if that is how it cancels."""
        return self.caller.connection is None and self.caller.has_left

    def write(self, values: Any) -> Write:
        """Returns the call as a write. Raises ``InvalidRequest`` for an invalid key."""
        if self.key is not None:
            request: IdempotentRequest | None = repeatable(self.caller.principal, _METHOD, _PATH, self.key, values)
        else:
            request = self.caller.named(self.request_id, values)
        return replace(self.caller.write(), request=request)
