"""Errors in HTTP responses and events, and the exceptions that represent them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from traceback import walk_tb
from types import TracebackType
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

_OWN: Final = ("libs.", "services.")


class ErrorKind(StrEnum):
    """The kind of an error, sent as ``error.type``."""

    INVALID_REQUEST = "invalid_request_error"
    AUTHENTICATION = "authentication_error"
    PERMISSION = "permission_error"
    NOT_FOUND = "not_found_error"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    CONFLICT = "conflict_error"
    TOO_LARGE = "request_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    RANGE = "range_not_satisfiable"
    VALIDATION = "validation_error"
    RATE_LIMIT = "rate_limit_error"
    BUDGET = "budget_exceeded"
    QUOTA = "quota_exceeded"
    INTERNAL = "internal_error"
    MODEL = "model_error"
    UNAVAILABLE = "service_unavailable"
    TIMEOUT = "timeout_error"


class ExceededBudget(BaseModel):
    """A used-up budget. ``limit`` and ``used`` are in ``unit``. A cost is an exact decimal, as a string."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    budget_id: str
    unit: Literal["cost", "tokens"]
    limit: str | int
    used: str | int
    renews_at: str | None = None


class ExceededLimit(BaseModel):
    """A company limit that was reached. `GET /me/` lists all limits by ``name``."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    limit: int
    used: int


class ErrorDetail(BaseModel):
    """A problem with one field of a request, or with a limit."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    loc: list[str | int]
    type: str
    message: str
    hint: str | None = None
    budget: ExceededBudget | None = Field(default=None, exclude_if=lambda budget: budget is None)
    limit: ExceededLimit | None = Field(default=None, exclude_if=lambda limit: limit is None)


_MESSAGES: Final = {
    "missing": "is required",
    "extra_forbidden": "isn't a known field",
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), "must be an object"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"), "must be a list"),
    "string_type": "must be text",
    "string_unicode": "must be text without unpaired surrogates",
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing"), "must be a whole number"),
    "int_parsing_size": "must be a smaller number",
    **dict.fromkeys(("float_type", "float_parsing", "decimal_type", "decimal_parsing"), "must be a number"),
    **dict.fromkeys(("decimal_max_digits", "decimal_max_places", "decimal_whole_digits"), "has too many digits"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "none_required": "must be null",
    **dict.fromkeys(("json_invalid", "json_type"), "must be valid JSON"),
    "invalid_key": "must have string keys",
    **dict.fromkeys(("url_type", "url_parsing", "url_syntax_violation", "url_scheme"), "must be a valid URL"),
    **dict.fromkeys(("uuid_type", "uuid_parsing"), "must be a UUID"),
    **dict.fromkeys(("date_type", "date_parsing", "date_from_datetime_parsing"), "must be a date such as 2026-01-31"),
    **dict.fromkeys(
        ("datetime_type", "datetime_parsing", "datetime_from_date_parsing"),
        "must be a time such as 2026-01-31T12:00:00Z",
    ),
    "timezone_aware": "must have a time zone",
    "timezone_naive": "must not have a time zone",
    "union_tag_not_found": "needs the field {discriminator}",
    "union_tag_invalid": "must have one of these values for {discriminator}: {expected_tags}",
}


def validation_message(error: Mapping[str, Any]) -> str:
    """Returns the API's message for a Pydantic error, phrased to follow the name of the field."""
    if (message := _MESSAGES.get(error["type"])) is not None:
        return message.format_map(error.get("ctx") or {})
    text: str = error["msg"]
    message = re.sub(r"^\w+ should ", "must ", text.removeprefix("Value error, ")).replace(" after validation", "")
    # A second lower-case letter distinguishes a word from a variable's name.
    return message[:1].lower() + message[1:] if message[1:2].islower() else message


def validation_details(errors: Sequence[Any]) -> list[ErrorDetail]:
    """Converts Pydantic errors to error details."""
    return [
        ErrorDetail(loc=list(error["loc"]), type=error["type"], message=validation_message(error), hint=_hint(error))
        for error in errors
    ]


def _hint(error: Any) -> str | None:
    if error["type"] == "extra_forbidden":
        return "remove this field or check its spelling"
    if error["type"] == "missing":
        return "this field is required"
    return None


class ErrorInfo(BaseModel):
    """An error in an HTTP response or an event."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    type: ErrorKind
    message: str
    details: list[ErrorDetail] | None = None
    correlation_id: str | None = None
    retry_after: int | None = None
    """The number of seconds to wait before a retry. HTTP responses have it only in the ``Retry-After`` header."""


class ErrorBody(BaseModel):
    """The response body of every error."""

    error: ErrorInfo


class ServiceError(Exception):
    """An error for the caller. It becomes a 4xx or 5xx response over HTTP, or a rejection event on the bus."""

    kind: ClassVar[ErrorKind] = ErrorKind.INTERNAL

    def __init__(
        self, message: str, *, details: Sequence[ErrorDetail] | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = list(details) if details else None
        self.retry_after = retry_after

    def info(self, correlation_id: str | None = None) -> ErrorInfo:
        return ErrorInfo(
            type=self.kind,
            message=self.message,
            details=self.details,
            correlation_id=correlation_id,
            retry_after=self.retry_after,
        )


class InvalidRequest(ServiceError):
    kind = ErrorKind.INVALID_REQUEST


class AuthenticationFailed(ServiceError):
    kind = ErrorKind.AUTHENTICATION


class PermissionDenied(ServiceError):
    kind = ErrorKind.PERMISSION


class NotFound(ServiceError):
    kind = ErrorKind.NOT_FOUND


class Conflict(ServiceError):
    kind = ErrorKind.CONFLICT


class TooLarge(ServiceError):
    kind = ErrorKind.TOO_LARGE

    @classmethod
    def beyond(cls, most_bytes: int, what: str) -> "TooLarge":
        return cls(f"{what} is larger than {_size(most_bytes)}.")


class UnsupportedMediaType(ServiceError):
    kind = ErrorKind.UNSUPPORTED_MEDIA_TYPE


class RangeNotSatisfiable(ServiceError):
    kind = ErrorKind.RANGE


class ValidationFailed(ServiceError):
    """The request is invalid. If no details are given, a single detail covers the whole request."""

    kind = ErrorKind.VALIDATION

    def __init__(
        self, message: str, *, details: Sequence[ErrorDetail] | None = None, retry_after: int | None = None
    ) -> None:
        whole = [ErrorDetail(loc=[], type="invalid", message=message)]
        super().__init__(message, details=details or whole, retry_after=retry_after)


class RateLimited(ServiceError):
    kind = ErrorKind.RATE_LIMIT


class BudgetExceeded(ServiceError):
    kind = ErrorKind.BUDGET


class QuotaExceeded(ServiceError):
    """The company has reached a limit. Create this error with ``quota_exceeded``."""

    kind = ErrorKind.QUOTA


class ModelFailed(ServiceError):
    kind = ErrorKind.MODEL


class ServiceUnavailable(ServiceError):
    kind = ErrorKind.UNAVAILABLE


class TimedOut(ServiceError):
    kind = ErrorKind.TIMEOUT


class InternalError(ServiceError):
    """An unexpected failure. ``cause``, a result of ``cause_of``, is for operators and never sent to callers."""

    kind = ErrorKind.INTERNAL

    def __init__(
        self,
        message: str,
        *,
        details: Sequence[ErrorDetail] | None = None,
        retry_after: int | None = None,
        cause: str | None = None,
    ) -> None:
        super().__init__(message, details=details, retry_after=retry_after)
        self.cause = cause


def cause_of(problem: BaseException) -> str:
    """Returns the type and location of an exception and of the chain of exceptions that caused it.

    The exceptions' messages are omitted, since they may contain users' data.
    """
    cause = f"{type(problem).__name__}{_location(problem.__traceback__)}"
    return cause if problem.__cause__ is None else f"{cause}, from {cause_of(problem.__cause__)}"


def _location(traceback: TracebackType | None) -> str:
    """Returns the line that raised the exception. If it's a library's line, the project's calling line precedes it."""
    lines = [(frame.f_globals.get("__name__", "?"), line) for frame, line in walk_tb(traceback)]
    own = [line for line in lines if line[0].startswith(_OWN)]
    frames = [*own[-1:], *(lines[-1:] if lines[-1:] != own[-1:] else ())]
    return "".join(f" at {module}:{line}" for module, line in frames)


_BY_KIND = {error.kind: error for error in ServiceError.__subclasses__()}


def error_from(info: ErrorInfo) -> ServiceError:
    """Returns the exception for a received error, such as the one in a ``….rejected`` event."""
    error = _BY_KIND.get(info.type, InternalError)
    return error(info.message, details=info.details, retry_after=info.retry_after)


def dotted_path(loc: Iterable[str | int]) -> str:
    """Returns the location of an error as text, such as ``messages.0.content``."""
    return ".".join(map(str, loc))


def invalid_field(
    loc: Sequence[str | int], message: str, *, kind: str = "invalid", hint: str | None = None
) -> ValidationFailed:
    """Returns the error for one field of a body, or for the whole body if ``loc`` is empty."""
    where = f"{dotted_path(loc)}: " if loc else ""
    detail = ErrorDetail(loc=list(loc), type=kind, message=message, hint=hint)
    return ValidationFailed(f"Invalid body: {where}{message}.", details=[detail])


def invalid_cursor() -> ValidationFailed:
    """Returns the error for a cursor that the list didn't issue."""
    finding = "must be the `next` value of the previous page"
    detail = ErrorDetail(loc=["query", "after"], type="invalid_cursor", message=finding)
    return ValidationFailed(f"Invalid query: after {finding}.", details=[detail])


def quota_exceeded(name: str, limit: int, used: int) -> QuotaExceeded:
    """Returns the error for a write that would exceed one of the company's limits."""
    what = name.replace("_", " ")
    message = f"The company has reached its limit for {what} ({used} of {limit} in use)."
    return QuotaExceeded(message, details=[_of_limit(name, limit, used, message)])


def rate_exceeded(name: str, limit: int, used: int, retry_after: int) -> RateLimited:
    """Returns the error for a request that would exceed one of the company's rate or concurrency limits."""
    what = name.replace("_per_minute", " per minute").replace("_", " ")
    message = f"The company has reached its limit for {what} ({limit})."
    return RateLimited(message, details=[_of_limit(name, limit, used, message)], retry_after=retry_after)


def _of_limit(name: str, limit: int, used: int, message: str) -> ErrorDetail:
    facts = ExceededLimit(name=name, limit=limit, used=used)
    return ErrorDetail(loc=[], type="quota_exceeded", message=message, limit=facts)


class StoreUnavailable(Exception):
    """A database or object store failed. A retry may succeed."""


class StoreBusy(StoreUnavailable):
    """Other transactions hold the required locks. Limit retries, since a transaction may deadlock every time."""


def _size(size: int) -> str:
    """Formats a number of bytes, in a larger unit if that's exact: ``50 MiB``."""
    for unit, unit_bytes in (("MiB", 1024 * 1024), ("KiB", 1024)):
        if size % unit_bytes == 0:
            return f"{size // unit_bytes} {unit}"
    return f"{size} bytes"
