"""Retries requests after temporary failures."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import httpx

from aes_client.api_errors import RateLimitError, ServiceTimeoutError
from aes_client.errors import ApiError, ConnectionFailed
from aes_client.flows import Flow, NeverConnected, Pause, Send
from aes_client.refusals import refusal
from aes_client.requests import Request

T = TypeVar("T")
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_HOPELESS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


@dataclass(frozen=True)
class RetryPolicy:
    """The number of retries after a failed request, and the pauses before them.

    Pauses are in seconds. They double from ``first`` to ``longest``, with jitter. A response's ``Retry-After`` extends
    the pause. If ``Retry-After`` exceeds ``longest_retry_after``, the client gives up immediately.

    ``first_contact`` is the number of retries if the service has never responded to this client. The default allows
    about six seconds. Increase ``first_contact`` if your program can start before the service.
    """

    retries: int = 7
    first: float = 0.5
    longest: float = 8.0
    longest_retry_after: float = 60.0
    first_contact: int = 4

    def pause(self, failures: int, retry_after: float | None = None) -> float | None:
        """Returns the pause after ``failures`` consecutive failures, or ``None`` if the client should give up."""
        if failures > self.retries or (retry_after or 0.0) > self.longest_retry_after:
            return None
        backoff = min(self.first * 2.0 ** (failures - 1), self.longest)
        jittered = backoff * random.uniform(0.5, 1.0)
        # Without jitter, all clients with the same Retry-After would retry at the same moment.
        return jittered if not retry_after else retry_after + jittered / 2

    def pause_after(self, failures: int, problem: Exception) -> float | None:
        """Returns the pause after a failure, or ``None`` if a retry can't help."""
        if isinstance(problem, ApiError):
            return self.pause(failures, problem.retry_after) if problem.is_transient else None
        if isinstance(problem, NeverConnected) and (problem.timed_out or failures > self.first_contact):
            return None
        return None if isinstance(problem, _HOPELESS) else self.pause(failures)


def sent(request: Request[T]) -> Flow[T]:
    """Sends a request once and returns its response. Raises ``ApiError`` if the service returns an error."""
    response: httpx.Response = yield Send(request)
    if response.is_error:
        raise refusal(response)
    return request.answer(response)


def attempts(request: Request[Any], policy: RetryPolicy, once: Callable[[Request[Any]], Flow[T]]) -> Flow[T]:
    """Returns the result of ``once``, which sends the request. Retries temporary failures.

    All attempts use the same idempotency key. Raises ``ApiError`` if the service returns an error, and
    ``ConnectionFailed`` if it doesn't respond.
    """
    request = request.with_key()
    failures, may_be_done = 0, False
    while True:
        failures += 1
        try:
            return (yield from once(request))
        except httpx.TransportError as problem:
            was_sent = not isinstance(problem, _NEVER_SENT)
            pause = policy.pause_after(failures, problem)
            if pause is None or (was_sent and request.repeat == "unless_sent"):
                raise ConnectionFailed(_explained(request, problem, failures)) from problem
            may_be_done = may_be_done or was_sent
        except ApiError as error:
            if error.status == 404 and may_be_done and request.repeat == "gone_is_done":
                # A deletion has no result.
                return cast("T", None)
            pause = policy.pause_after(failures, error)
            if pause is None or (request.repeat == "unless_sent" and not isinstance(error, RateLimitError)):
                raise
            may_be_done = may_be_done or isinstance(error, ServiceTimeoutError)
        yield Pause(pause)


def _explained(request: Request[Any], problem: httpx.TransportError, attempts: int) -> str:
    times = "once" if attempts == 1 else f"{attempts} times"
    url = problem.request.url
    # Omits the user and password that the URL may contain.
    place = f"{url.scheme}://{url.netloc.decode()}"
    reason = str(problem) or type(problem).__name__
    return f"{place} didn't respond to {request.method} {request.path}, tried {times}: {reason}"
