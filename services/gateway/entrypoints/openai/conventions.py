"""The conventions of OpenAI's API: the prefix, the error format, and headers."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import orjson
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from libs.contracts.errors import ErrorDetail, ErrorInfo, ErrorKind, ServiceError, ValidationFailed, dotted_path
from libs.contracts.identifiers import creation_time
from libs.tracing import current_correlation_id
from services.gateway.entrypoints.door.answers import value_answer
from services.gateway.entrypoints.door.errors import ErrorShape, refusal

P = TypeVar("P", bound=ServiceError)
PREFIX: Final = "/openai/v1"
_TYPES: Final = {
    ErrorKind.AUTHENTICATION: "authentication_error",
    ErrorKind.PERMISSION: "permission_error",
    ErrorKind.RATE_LIMIT: "rate_limit_error",
    ErrorKind.BUDGET: "insufficient_quota",
    ErrorKind.QUOTA: "insufficient_quota",
    ErrorKind.INTERNAL: "server_error",
    ErrorKind.MODEL: "server_error",
    ErrorKind.UNAVAILABLE: "server_error",
    ErrorKind.TIMEOUT: "server_error",
}
_NEVER_REPEATED: Final = (409, 504)
_SHOULD_RETRY: Final = "x-should-retry"
_CODES: Final = {
    ErrorKind.AUTHENTICATION: "invalid_api_key",
    ErrorKind.NOT_FOUND: "not_found",
    ErrorKind.RATE_LIMIT: "rate_limit_exceeded",
}


def error_fields(info: ErrorInfo) -> dict[str, Any]:
    """Returns OpenAI's error object. ``param``, ``code`` and the hint come from the error's first detail."""
    finding = info.details[0] if info.details else None
    return {
        "message": info.message if finding is None else _with_hint(info.message, finding.hint),
        "type": _TYPES.get(info.type, "invalid_request_error"),
        "param": dotted_path(finding.loc) or None if finding is not None else None,
        "code": finding.type if finding is not None else _CODES.get(info.type, str(info.type)),
    }


def _with_hint(message: str, hint: str | None) -> str:
    """Appends the hint as a sentence. A single word is only an example of a value, such as ``limit=20``."""
    if hint is None or " " not in hint:
        return message
    first, _, rest = hint.partition(" ")
    sentence = f"{first.capitalize() if first.isalpha() and first.islower() else first} {rest}"
    return f"{message.rstrip('.')}. {sentence}{'' if sentence[-1] in '.?!' else '.'}"


def _body(info: ErrorInfo) -> bytes:
    return orjson.dumps({"error": error_fields(info)})


def _event(info: ErrorInfo) -> bytes:
    # Clients raise an error if the data of any event contains ``error``.
    return b"event: error\ndata: " + orjson.dumps({"type": "error", "error": error_fields(info)}) + b"\n\n"


SHAPE: Final = ErrorShape(_body, _event, {ErrorKind.VALIDATION: 400})


def refuse(param: str, message: str, code: str = "unsupported_parameter") -> ValidationFailed:
    """Returns the error for an invalid or unsupported field."""
    return ValidationFailed(message, details=[ErrorDetail(loc=list(param.split(".")), type=code, message=message)])


def turn_error(request: Request, problem: ServiceError, headers: Mapping[str, str]) -> Response:
    """Returns the response to an error of an accepted turn, with the turn's headers.

    OpenAI's clients must not retry it: the runtime has already retried what may succeed, and another turn would call
    the same tools again.
    """
    response = refusal(problem, SHAPE, request)
    response.headers.update({**headers, _SHOULD_RETRY: "false"})
    return response


def renamed(problem: P, names: Mapping[str, str]) -> P:
    """Returns the error with the field names of the request.

    ``names`` maps the first one or two parts of a field's location in the turn to the request's field.
    """
    if not problem.details:
        return problem
    details = [each.model_copy(update={"loc": _renamed(each.loc, names)}) for each in problem.details]
    return type(problem)(problem.message, details=details, retry_after=problem.retry_after)


def _renamed(loc: Sequence[str | int], names: Mapping[str, str]) -> list[str | int]:
    for length in (2, 1):
        if (name := names.get(dotted_path(loc[:length]))) is not None:
            return [*filter(None, name.split(".")), *loc[length:]]
    return list(loc)


def deleted(identifier: str, kind: str) -> Response:
    return value_answer({"id": identifier, "object": kind, "deleted": True})


def created_at(identifier: str) -> int:
    """Returns the Unix time encoded in an ID, or 0."""
    made = creation_time(identifier)
    return 0 if made is None else int(made.timestamp())


class ClientHeadersMiddleware:
    """Adds ``x-request-id``, and ``x-should-retry: false`` to 409 and 504, which OpenAI's clients would retry.

    A conflict would recur, and a retry while the turn is running would start another turn.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                request_id = (current_correlation_id() or "").encode("latin-1")
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
                if message["status"] in _NEVER_REPEATED:
                    MutableHeaders(raw=message["headers"])[_SHOULD_RETRY] = "false"
            await send(message)

        await self._app(scope, receive, named)
