"""Errors as replies of the public API."""

from collections.abc import Iterable

from libs.contracts.errors import ErrorInfo, ErrorKind, ServiceError
from libs.service_defaults.errors import STATUSES
from services.gateway.entrypoints.http.messages import Reply

_DEFAULT_RETRY_SECONDS = 2
_RETRIABLE = (ErrorKind.UNAVAILABLE, ErrorKind.RATE_LIMIT)


def error_reply(problem: ServiceError, correlation_id: str) -> Reply:
    """The reply that tells of a problem."""
    return _reply(problem.info(correlation_id))


def method_not_allowed(allowed: Iterable[str], correlation_id: str) -> Reply:
    methods = ", ".join(sorted(allowed))
    message = f"This path takes {methods}."
    reply = _reply(ErrorInfo(type=ErrorKind.METHOD_NOT_ALLOWED, message=message, correlation_id=correlation_id))
    reply.headers.append((b"allow", methods.encode()))
    return reply


def _reply(info: ErrorInfo) -> Reply:
    unused = {name for name in ("details", "correlation_id") if getattr(info, name) is None}
    body = info.model_dump_json(exclude={"retry_after", *unused})
    reply = Reply(STATUSES[info.type], b'{"error":' + body.encode() + b"}")
    if info.type in _RETRIABLE:
        reply.headers.append((b"retry-after", str(info.retry_after or _DEFAULT_RETRY_SECONDS).encode()))
    if info.type is ErrorKind.TOO_LARGE:
        # The rest of the body may still be on its way: this connection cannot carry another request.
        reply.headers.append((b"connection", b"close"))
    return reply
