"""Failures of model calls, the same for every provider: retries, waits that providers ask for, safe messages."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from math import ceil
from typing import Final, TypeVar

import structlog

from libs.retry import RetryPolicy, Transient
from services.runtime.adapters.observed import RETRIED_MODEL_CALLS
from services.runtime.domain.models import ModelFailed, ModelRateLimited

_log = structlog.get_logger("model")
RETRIED_STATUSES: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
# A Retry-After beyond the longest wait ends the retries.
MODEL_RETRIES: Final = RetryPolicy(first=0.5, longest=20.0, attempts=4)

_LONGEST_MESSAGE = 500
# Of the waits that callers are told, in seconds.
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

Answer = TypeVar("Answer")


class Retryable(Transient):
    """A failed call that may be made again."""

    def __init__(self, failure: ModelFailed, retry_after: float | None = None) -> None:
        super().__init__(failure.message, retry_after)
        self.failure = failure


class ProviderRetries:
    """Repeats calls of one provider that failed as `Retryable`, and counts the repetitions."""

    def __init__(self, provider: str, policy: RetryPolicy | None = None) -> None:
        self._policy = policy or MODEL_RETRIES
        self._counter = RETRIED_MODEL_CALLS.labels(provider)

    async def run(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Raises the last `ModelFailed` once the attempts are used up.

        It is `ModelRateLimited` when the provider says when to come back.
        """
        try:
            return await self._policy.run(call, on=Retryable, before_sleep=lambda *_: self._counter.inc())
        except Retryable as error:
            if error.failure.status == HTTPStatus.TOO_MANY_REQUESTS and error.retry_after is not None:
                wait = ceil(min(max(error.retry_after, 1.0), _LONGEST_WAIT))
                raise ModelRateLimited(error.failure.message, retry_after=wait) from error
            raise error.failure from error


def connection_failure(provider: str, address: str, problem: BaseException) -> str:
    """The caller's text for a failed connection. Address and the library's words are logged, for operators alone."""
    _log.warning("model.connection_failed", provider=provider, address=redact(address), problem=redact(repr(problem)))
    return "the connection failed"


def retry_after_seconds(headers: Mapping[str, str], now: Callable[[], datetime] | None = None) -> float | None:
    """The header in seconds, from its number or date form; None when missing or unreadable."""
    milliseconds = headers.get("retry-after-ms")
    value = headers.get("retry-after")
    try:
        if milliseconds is not None:
            return max(0.0, float(milliseconds) / 1000)
        if value is None:
            return None
        return max(0.0, float(value))
    except ValueError:
        return _seconds_until(value, now or (lambda: datetime.now(UTC)))


def _seconds_until(value: str | None, now: Callable[[], datetime]) -> float | None:
    try:
        moment = parsedate_to_datetime(value or "")
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now()).total_seconds())


def redact(message: str, secrets: Iterable[str] = ()) -> str:
    """`message` on one line, shortened, without `secrets` and without anything that looks like one."""
    for secret in secrets:
        if secret:
            message = message.replace(secret, "***")
    message = " ".join(_SECRETS.sub("***", message).split())
    return message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 1] + "…"
