"""Handles failed model calls for all providers."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from math import ceil
from typing import Any, Final

import structlog

from libs.json_text import NotJson, read_json, without_half_pairs
from libs.retry import RetryPolicy, Transient
from services.runtime.adapters.observed import RETRIED_MODEL_CALLS
from services.runtime.domain.conversation import ModelAnswer
from services.runtime.domain.models import ModelFailed, ModelRateLimited, OnText

_log = structlog.get_logger("model")
_RETRIED_STATUSES: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
# A Retry-After beyond the longest wait ends the retries.
MODEL_RETRIES: Final = RetryPolicy(first=0.5, longest=20.0, attempts=4)
ANSWER_SECONDS: Final = 180.0
"""The time limit of a whole answer, or of the gap between two pieces of a streamed answer."""
_LONGEST_MESSAGE = 500
# The longest Retry-After that callers receive, in seconds.
_LONGEST_WAIT: Final = 7 * 24 * 3600.0
_SECRETS = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|key|sess|org|proj)[-_][A-Za-z0-9_*.\-]{4,}"
    r"|\bAIza[A-Za-z0-9_\-]{10,}"
    r"|\beyJ[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]+)*"
    r"|(?<=bearer )\S+"
    r"|(?<=[?&]key=)[^&\s]+"
    r"|(?<=://)[^/\s@]+(?=@)",
    re.IGNORECASE,
)
_TEXT_MEMBERS: Final = ("message", "detail", "msg", "error", "errors", "text", "title", "type")
"""Fields that may contain an error's text, most informative first."""
_DEEPEST_TEXT: Final = 5
_MOST_TEXTS: Final = 3
_UNSPECIFIED: Final = "unspecified error"


class Retryable(Transient):
    """A failed call that may be retried. `retry_after` is the delay in seconds that the provider asked for, if any."""

    def __init__(self, failure: ModelFailed, retry_after: float | None = None) -> None:
        super().__init__(failure.message, retry_after)
        self.failure = failure


class ProviderCalls:
    """Retries one provider's `Retryable` failures, counts the retries, and creates the errors for failed calls."""

    def __init__(self, provider: str, policy: RetryPolicy | None = None, secret: str | None = None) -> None:
        self._provider = provider
        self._policy = policy or MODEL_RETRIES
        self._secret = secret
        self._counter = RETRIED_MODEL_CALLS.labels(provider)

    async def run(
        self, attempt: Callable[[OnText | None], Awaitable[ModelAnswer]], on_text: OnText | None
    ) -> ModelAnswer:
        """Runs the attempt, with retries. When no attempts remain, raises the last `ModelFailed`.

        Once text has been streamed, a failure is final, because a retry would duplicate the text. Raises
        `ModelRateLimited` instead if the provider responded with 429 and said when to retry.
        """
        streamed = False

        def emit(text: str) -> None:
            nonlocal streamed
            streamed = True
            assert on_text is not None
            on_text(text)

        try:
            return await self._policy.run(
                lambda: attempt(None if on_text is None else emit),
                on=Retryable,
                when=lambda _: not streamed,
                before_sleep=lambda *_: self._counter.inc(),
            )
        except Retryable as error:
            is_limit = error.failure.status == HTTPStatus.TOO_MANY_REQUESTS and not streamed
            if is_limit and error.retry_after is not None:
                wait = ceil(min(max(error.retry_after, 1.0), _LONGEST_WAIT))
                raise ModelRateLimited(error.failure.message, retry_after=wait) from error
            raise error.failure from error

    def failed(self, message: str, status: int | None = None) -> ModelFailed:
        """Creates the error for a failed call, with a message such as `openai: status 401: invalid key`."""
        message = redact(message, (self._secret,) if self._secret else ())
        # Messages may contain the status already. Other numbers are a provider's own codes.
        if status is not None and 400 <= status < 600 and not re.search(rf"\b{status}\b", message):
            message = f"status {status}: {message}"
        return ModelFailed(f"{self._provider}: {message}", status)

    def refused(self, message: str, status: int | None, retry_after: float | None = None) -> Exception:
        """Creates the error for a response with an error. The status decides whether the call may be retried."""
        failure = self.failed(message, status)
        return Retryable(failure, retry_after) if status in _RETRIED_STATUSES else failure

    def timed_out(self) -> Retryable:
        return Retryable(self.failed("the request timed out"))

    def unreachable(self, address: str, problem: BaseException) -> Retryable:
        """Creates the error for a failed connection, and logs the details, which callers don't receive."""
        _log.warning(
            "model.connection_failed", provider=self._provider, address=redact(address), problem=redact(repr(problem))
        )
        return Retryable(self.failed("the connection failed"))


def retry_after_seconds(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Returns the delay that the response's headers ask for, in seconds, or None if it's missing or unreadable."""
    milliseconds, value = headers.get("retry-after-ms"), headers.get("retry-after")
    with suppress(ValueError):
        if milliseconds is not None:
            return max(0.0, float(milliseconds) / 1000)
        return None if value is None else max(0.0, float(value))
    try:
        moment = parsedate_to_datetime(value or "")
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def redact(message: str, secrets: Iterable[str] = ()) -> str:
    """Returns `message` shortened, on one line, and without `secrets` or anything that looks like a secret."""
    for secret in secrets:
        message = message.replace(secret, "***")
    message = " ".join(_SECRETS.sub("***", message).split())
    return message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 1] + "…"


class ErrorInBody(Exception):
    """A response body contains an error instead of an answer. `code` is usually an HTTP status, or None."""

    def __init__(self, error: Any) -> None:
        super().__init__(error_message(error))
        self.code = _code(error)


def error_message(error: Any) -> str:
    """Returns the text of an error, which may be a string, a list or an object."""
    return without_half_pairs(_text_of(error)) or _UNSPECIFIED


def error_text(payload: bytes, content_type: str) -> str | None:
    """Returns the message in an error response, or None if the response has no usable text."""
    try:
        return without_half_pairs(_text_of(read_json(payload))) or None
    except NotJson:
        return payload.decode(errors="replace").strip() or None if content_type == "text/plain" else None


def error_in(body: Any) -> Any:
    """Returns the error in the body of a 200 response, or None if the body is an answer."""
    if isinstance(body, list) and body and isinstance(body[0], dict):
        return error_in(body[0])
    if not isinstance(body, dict):
        return None
    if body.get("error"):
        return body["error"]
    says = any(body.get(name) for name in ("message", "detail"))
    return body if says and not body.get("choices") and body.get("object") in (None, "error") else None


def _text_of(value: Any, levels: int = _DEEPEST_TEXT) -> str:
    if isinstance(value, str):
        return value
    if levels == 0:
        return ""
    if isinstance(value, list):
        return "; ".join(text for item in value[:_MOST_TEXTS] if (text := _text_of(item, levels - 1)))
    if not isinstance(value, dict):
        return ""
    return next((text for name in _TEXT_MEMBERS if (text := _text_of(value.get(name), levels - 1))), "")


def _code(error: Any) -> int | None:
    for name in ("code", "status"):
        code = error.get(name) if isinstance(error, dict) else None
        if isinstance(code, str) and len(code) == 3 and code.isascii() and code.isdecimal():
            code = int(code)
        if isinstance(code, int) and not isinstance(code, bool):
            return code
    return None
