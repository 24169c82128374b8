"""Turns requests into writes. An ``Idempotency-Key`` makes them safe to retry."""

import hashlib
import re
from typing import Annotated, Any, Final

import orjson
from fastapi import Depends, Request

from libs.contracts.errors import InvalidRequest
from libs.tracing import current_correlation_id
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import IdempotentRequest, Write
from services.gateway.entrypoints.door.queries import IdempotencyKey

_MAX_KEY: Final = 200
_MIN_PUBLIC_KEY: Final = 32
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


async def plain_write(request: Request) -> Write:
    """Returns the request as a write. This dependency must be declared after the operation's caller and body."""
    principal: Principal = request.state.principal
    given = request.headers.get("traceparent")
    return Write(
        identity=principal.identity,
        correlation_id=current_correlation_id() or "",
        # Ignores a malformed trace context, as the W3C recommendation requires.
        traceparent=given if given is not None and _TRACEPARENT.fullmatch(given) else None,
        images=getattr(request.state, "images", None),
    )


async def idempotent_write(request: Request, key: IdempotencyKey = None) -> Write:
    """Like ``plain_write``, with an ``Idempotency-Key``. Raises ``InvalidRequest`` for an invalid key."""
    write = await plain_write(request)
    if key is not None:
        values = getattr(request.state, "values", None)
        write.request = repeatable(request.state.principal, request.method, request.scope["path"], key, values)
    return write


def repeatable(principal: Principal, method: str, path: str, key: str, values: Any) -> IdempotentRequest:
    """Returns the values that identify a write's retries. Raises ``InvalidRequest`` for an invalid key."""
    return IdempotentRequest(
        company_id=principal.identity.company_id,
        principal_id=principal.identity.user_id,
        method=method,
        path=path,
        key=checked_key(key, principal),
        body_hash=hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).digest(),
    )


def checked_key(key: str, principal: Principal) -> str:
    # Public principals share an identity, so with a guessable key, a visitor could get another visitor's result.
    shortest = 1 if principal.public is None else _MIN_PUBLIC_KEY
    if not shortest <= len(key) <= _MAX_KEY or not (key.isascii() and key.isprintable()):
        raise InvalidRequest(f"The Idempotency-Key must be {shortest} to {_MAX_KEY} printable ASCII characters.")
    return key


PlainWrite = Annotated[Write, Depends(plain_write)]
IdempotentWrite = Annotated[Write, Depends(idempotent_write)]
