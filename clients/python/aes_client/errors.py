"""Errors of the client: one class for each error type of the service, and some of the client itself.

AesError
├── ApiError                 an answer of the service; `type`, `status`, `message`, `details`, `correlation_id`
│   ├── InvalidRequestError, AuthenticationError, PermissionDeniedError, NotFoundError, MethodNotAllowedError,
│   │   ConflictError, RequestTooLargeError, UnsupportedMediaTypeError, RangeNotSatisfiableError, ValidationError
│   ├── RateLimitError, BudgetExceededError, QuotaExceededError
│   └── InternalError, ModelError, ServiceUnavailableError, ServiceTimeoutError
├── ConnectionFailed         no answer, after all attempts
├── TimeLimitReached         the caller's time limit
├── ActionRequired           a turn waits for an answer that nobody here gives
├── UnexpectedAnswer         an answer that is none of the service
└── NotConfigured            no address or no credential was given; a ``ValueError`` as well
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

from aes_client.models import ErrorDetail, ErrorInfo, RequiredAction


class AesError(Exception):
    """Base of all errors of this client."""


class ApiError(AesError):
    """An error that the service answered with. ``status`` is 0 for one that came as an event.

    ``details``: what is wrong where, for a ``ValidationError``. ``retry_after``: seconds.
    """

    type: str = "internal_error"
    is_transient: ClassVar[bool] = False
    """Whether a repetition may help."""

    def __init__(
        self,
        message: str,
        *,
        type: str | None = None,
        status: int = 0,
        details: Sequence[ErrorDetail] = (),
        correlation_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.type = type or self.type
        self.status = status
        self.details = tuple(details)
        self.correlation_id = correlation_id
        self.retry_after = retry_after

    def __str__(self) -> str:
        # The message often says the first problem, or the only one, itself.
        others = [each for each in self.details if each.loc and each.message not in self.message]
        return "\n  ".join([self.message, *(f"{'.'.join(map(str, each.loc))}: {each.message}" for each in others)])


class InvalidRequestError(ApiError):
    """The body is not readable, or a header is malformed."""

    type = "invalid_request_error"


class AuthenticationError(ApiError):
    """The credential is missing, unknown, revoked or expired."""

    type = "authentication_error"


class PermissionDeniedError(ApiError):
    """The credential lacks a scope."""

    type = "permission_error"


class QuotaExceededError(ApiError):
    """The company has as much of something as it may have; ``details[0].limit`` says of what, and how much."""

    type = "quota_exceeded"


class NotFoundError(ApiError):
    """There is no such thing, or it is not the caller's."""

    type = "not_found_error"


class MethodNotAllowedError(ApiError):
    type = "method_not_allowed"


class ConflictError(ApiError):
    """The state of things does not allow it."""

    type = "conflict_error"


class RequestTooLargeError(ApiError):
    type = "request_too_large"


class UnsupportedMediaTypeError(ApiError):
    """A file of a kind that the service does not take."""

    type = "unsupported_media_type"


class RangeNotSatisfiableError(ApiError):
    type = "range_not_satisfiable"


class ValidationError(ApiError):
    """The request is not valid; ``details`` says where and why."""

    type = "validation_error"


class RateLimitError(ApiError):
    type = "rate_limit_error"
    is_transient = True


class BudgetExceededError(ApiError):
    """A budget of the company, the user or the key is used up."""

    type = "budget_exceeded"


class InternalError(ApiError):
    type = "internal_error"


class ModelError(ApiError):
    """The model's provider failed, also when asked again; the turn has failed."""

    type = "model_error"


class ServiceUnavailableError(ApiError):
    """A part of the service cannot be reached."""

    type = "service_unavailable"
    is_transient = True


class ServiceTimeoutError(ApiError):
    """Not accepted in time. It may still be carried out; the client's repetitions cannot make it happen twice."""

    type = "timeout_error"
    is_transient = True


class ConnectionFailed(AesError):
    """The service gave no answer."""


class TimeLimitReached(AesError):
    """The caller's time limit is over. A turn goes on in the service; ``turn_id`` names it."""

    def __init__(self, message: str, *, session_id: str | None = None, turn_id: str | None = None) -> None:
        super().__init__(message)
        self.session_id = session_id
        self.turn_id = turn_id


class ActionRequired(AesError):
    """A turn waits for answers that neither a tool nor an approval of this call gives.

    It waits on: ``client.session(error.session_id).turn(error.turn_id).resolve(…)`` answers the ``actions``.
    """

    def __init__(self, session_id: str, turn_id: str, actions: Sequence[RequiredAction]) -> None:
        calls = ", ".join(f"{each.kind} of {each.tool_call.name}" for each in actions)
        super().__init__(f"The turn {turn_id} waits for: {calls}.")
        self.session_id = session_id
        self.turn_id = turn_id
        self.actions = tuple(actions)


class UnexpectedAnswer(AesError):
    """An answer that is none of the service: is the address right, or is there a proxy?"""


class NotConfigured(AesError, ValueError):
    """The address of the service or the credential is missing."""


_BY_TYPE = {each.type: each for each in ApiError.__subclasses__()}
_BY_STATUS: dict[int, type[ApiError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    413: RequestTooLargeError,
    429: RateLimitError,
    502: ServiceUnavailableError,
    503: ServiceUnavailableError,
    504: ServiceTimeoutError,
}


def error_of(info: ErrorInfo, *, status: int = 0, retry_after: float | None = None) -> ApiError:
    """Returns the error for an error body of the service."""
    return _BY_TYPE.get(info.type, ApiError)(
        info.message,
        type=info.type,
        status=status,
        details=info.details or (),
        correlation_id=info.correlation_id,
        retry_after=info.retry_after if retry_after is None else retry_after,
    )


def error_in(content: bytes, *, status: int = 0, retry_after: float | None = None) -> ApiError:
    """Returns the error in the body of an answer, which a proxy in between may have written."""
    try:
        info = ErrorInfo.model_validate(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        kind = _BY_STATUS.get(status, ApiError)
        return kind(f"The answer has status {status} and no error body.", status=status, retry_after=retry_after)
    return error_of(info, status=status, retry_after=retry_after)
