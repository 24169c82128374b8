"""Parses error responses from the service and from proxies."""

from __future__ import annotations

import json

import httpx

from aes_client import api_errors
from aes_client.errors import ApiError
from aes_client.models import ErrorInfo

_BY_TYPE = {each.type: each for each in ApiError.__subclasses__()}
_OF_PROXIES: dict[int, type[ApiError]] = {
    401: api_errors.AuthenticationError,
    403: api_errors.PermissionDeniedError,
    404: api_errors.NotFoundError,
    413: api_errors.RequestTooLargeError,
    429: api_errors.RateLimitError,
    502: api_errors.ServiceUnavailableError,
    503: api_errors.ServiceUnavailableError,
    504: api_errors.ServiceTimeoutError,
}


def refusal(response: httpx.Response) -> ApiError:
    """Returns the exception for an error response."""
    given = response.headers.get("retry-after", "")
    seconds = float(given) if given.isascii() and given.isdigit() else None
    return error_in(response.content, status=response.status_code, retry_after=seconds)


def error_in(content: bytes, *, status: int = 0, retry_after: float | None = None) -> ApiError:
    """Returns the exception for an error body, which may come from a proxy instead of the service."""
    try:
        info = ErrorInfo.model_validate(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        kind = _OF_PROXIES.get(status, ApiError)
        message = (
            f"The response has status {status} and isn't from the service. Check the address and any proxy in between."
        )
        return kind(message, status=status, retry_after=retry_after)
    return error_of(info, status=status, retry_after=retry_after)


def error_of(info: ErrorInfo, *, status: int = 0, retry_after: float | None = None) -> ApiError:
    """Returns the exception for an error that the service reported."""
    return _BY_TYPE.get(info.type, ApiError)(
        info.message,
        type=info.type,
        status=status,
        details=info.details or (),
        correlation_id=info.correlation_id,
        retry_after=info.retry_after if retry_after is None else retry_after,
    )
