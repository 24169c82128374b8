"""Requests of MCP clients, as tools and resources see them."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from libs.contracts.identity import Identity
from libs.tracing import current_correlation_id
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import IdempotentRequest, Write
from services.gateway.entrypoints.door.writes import repeatable

RequestId = str | int
_METHOD, _PATH = "POST", "/mcp"


@dataclass(slots=True)
class Caller:
    """The sender of a request. ``has_left``: the connection was closed before the answer.

    ``connection``: the id that this server gave the client's connection, in versions of the protocol that have such.
    """

    principal: Principal
    traceparent: str | None = None
    connection: str | None = None
    has_left: bool = False

    @property
    def identity(self) -> Identity:
        return self.principal.identity

    def write(self) -> Write:
        correlation_id = current_correlation_id() or ""
        return Write(identity=self.identity, correlation_id=correlation_id, traceparent=self.traceparent)

    def named(self, request_id: RequestId | None, body_hash: bytes = b"") -> IdempotentRequest | None:
        """A request by the name that its client uses to cancel it; None where closing the connection is the way."""
        if self.connection is None or request_id is None:
            return None
        return IdempotentRequest(
            company_id=self.identity.company_id,
            principal_id=self.identity.user_id,
            method=_METHOD,
            path=_PATH,
            key=hashlib.sha256(orjson.dumps([self.connection, request_id])).hexdigest(),
            body_hash=body_hash,
        )


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool. ``tell`` shows progress to a client that asked for it, as ``is_followed`` says.

    ``key``: an idempotency key, by which a client makes the same call again.
    """

    caller: Caller
    tell: Callable[[str], Awaitable[None]]
    is_followed: bool = False
    request_id: RequestId | None = None
    key: str | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether the client has closed the connection, where that is how it cancels."""
        return self.caller.connection is None and self.caller.has_left

    def write(self, values: Any) -> Write:
        """The call as a write. Raises ``InvalidRequest`` for a bad key."""
        body_hash = hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).digest()
        request = self.caller.named(self.request_id, body_hash)
        if self.key is not None:
            request = repeatable(self.caller.principal, _METHOD, _PATH, self.key, values)
        return replace(self.caller.write(), request=request)
