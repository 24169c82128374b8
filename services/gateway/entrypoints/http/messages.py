"""A request on its way through the gateway, and the two kinds of answer."""

import hashlib
import re
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from libs.contracts.errors import InvalidRequest
from libs.contracts.identifiers import is_correlation_id
from libs.service_defaults import UpstreamStream
from libs.service_defaults.observed_requests import NO_ROUTE
from libs.tracing import NOTHING, Span
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import IdempotentRequest, Write
from services.gateway.entrypoints.http.incoming import Incoming

Headers = list[tuple[bytes, bytes]]
_LONGEST_KEY: Final = 200
_SHORTEST_OF_VISITORS: Final = 32
_TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(slots=True, kw_only=True)
class Request:
    """``values`` is the decoded body, ``body`` the same after the operation's model; ``None`` without a body.

    ``principal`` is there once the caller is authenticated, ``incoming`` for an operation that takes uploads.
    """

    method: str
    path: str
    raw_path: bytes
    headers: dict[bytes, bytes]
    query: bytes
    correlation_id: str
    operation: str = "none"
    route: str = NO_ROUTE
    parameters: dict[str, str] = field(default_factory=dict)
    values: Any = None
    body: Any = None
    principal: Principal = field(init=False)
    incoming: Incoming = field(init=False)
    span: Span = NOTHING
    _write: Write | None = None

    @property
    def recorded_correlation_id(self) -> str:
        """The correlation id to answer with: that of an earlier request when this one repeats it."""
        return self._write.correlation_id if self._write is not None else self.correlation_id

    def write(self) -> Write:
        """This request as a write to carry out."""
        self._write = Write(
            identity=self.principal.identity,
            correlation_id=self.correlation_id,
            request=self.idempotent_request(),
            traceparent=self.traceparent,
        )
        return self._write

    @property
    def traceparent(self) -> str | None:
        """The caller's own W3C trace context."""
        return _trace(self.headers.get(b"traceparent"))

    def idempotent_request(self) -> IdempotentRequest | None:
        """What its ``Idempotency-Key`` stands for, if it has one. Raises ``InvalidRequest`` for a bad one."""
        key = self.idempotency_key()
        if key is None:
            return None
        identity = self.principal.identity
        return IdempotentRequest(
            company_id=identity.company_id,
            principal_id=identity.user_id,
            method=self.method,
            path=self.path,
            key=key,
            body_hash=hashlib.sha256(orjson.dumps(self.values, option=orjson.OPT_SORT_KEYS)).digest(),
        )

    def idempotency_key(self) -> str | None:
        """Raises ``InvalidRequest`` for a bad one."""
        raw = self.headers.get(b"idempotency-key")
        if raw is None:
            return None
        key = raw.decode("latin-1")
        # Visitors share an identity: with a guessable key one of them would get what another one made.
        shortest = 1 if self.principal.public is None else _SHORTEST_OF_VISITORS
        if not shortest <= len(key) <= _LONGEST_KEY or not (key.isascii() and key.isprintable()):
            raise InvalidRequest(
                f"The Idempotency-Key must be {shortest} to {_LONGEST_KEY} printable ASCII characters."
            )
        return key


@dataclass(slots=True)
class Reply:
    status: int
    body: bytes = b""
    headers: Headers = field(default_factory=list)
    media_type: bytes = b"application/json"


@dataclass(slots=True)
class Stream:
    """A reply that is sent while it comes about; closing the generator ends what it stands for."""

    chunks: AsyncGenerator[bytes, None]


@dataclass(slots=True)
class Passage:
    """An upstream's answer that is passed on as it comes in; its status and headers as well.

    ``judges_caller``: the upstream checks what the caller presents, and a 401 of it is the caller's.
    """

    opening: AbstractAsyncContextManager[UpstreamStream]
    judges_caller: bool = False


def _trace(raw: bytes | None) -> str | None:
    """The caller's W3C trace context; one that is malformed is ignored, as the recommendation says."""
    return raw.decode("ascii") if raw is not None and _TRACEPARENT.fullmatch(raw) else None


def correlation_from(raw: bytes | None, default: str) -> str:
    """The caller's correlation id, if there is one. Raises ``InvalidRequest``."""
    if raw is None:
        return default
    correlation_id = raw.decode("latin-1")
    if not is_correlation_id(correlation_id):
        raise InvalidRequest("X-Correlation-ID must be 1 to 128 characters of A-Za-z0-9._:-")
    return correlation_id
