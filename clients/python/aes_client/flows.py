"""Flows: generators that yield steps, such as sending a request, and receive the outcome of each step.

The client's logic is written once, as flows. A blocking and an asynchronous runner execute their steps. If a step
fails, its exception is raised at the ``yield``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import httpx

from aes_client.errors import TimeLimitReached
from aes_client.requests import Request

T = TypeVar("T")


@dataclass(frozen=True)
class Send:
    """A step that sends a request once. Its outcome is the ``httpx.Response``, whatever the status."""

    request: Request[Any]


@dataclass(frozen=True)
class Open:
    """A step that sends a request once, without reading the response's body. Its outcome is an ``OpenResponse``."""

    request: Request[Any]


@dataclass
class OpenResponse:
    """A response whose body is read piece by piece."""

    response: httpx.Response
    pieces: Any


@dataclass(frozen=True)
class Read:
    """A step that reads the next piece of a response's body. Its outcome is empty at the end of the body."""

    answer: OpenResponse


@dataclass(frozen=True)
class Close:
    """A step that closes a response before its body has been read to the end."""

    answer: OpenResponse


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Call:
    """A step that calls a function of the user's program, which can be a coroutine function.

    Its outcome is the function's result.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] | None = None


@dataclass(frozen=True)
class Together:
    """A step that runs flows concurrently.

    Its outcome is the list of their results and exceptions, in the order of ``flows``.
    """

    flows: Sequence[Generator[Any, Any, Any]]


@dataclass(frozen=True)
class Emit(Generic[T]):
    """A step that yields an item to the caller."""

    item: T


class NeverConnected(httpx.ConnectError):
    """``Send`` and ``Open`` raise this error if connecting fails before the service has ever responded to this client.

    The cause is probably a wrong address. After a first response, it would be an outage. ``timed_out`` is true if the
    attempt timed out instead of being refused.
    """

    def __init__(self, problem: httpx.TransportError) -> None:
        super().__init__(str(problem) or type(problem).__name__, request=problem.request)
        self.timed_out = isinstance(problem, httpx.ConnectTimeout)


Step = Send | Open | Read | Close | Pause | Call | Together
Flow = Generator[Step, Any, T]
Emitting = Generator[Step | Emit[T], Any, None]


class Deadline:
    """A time limit in seconds. ``None`` means that there's no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self, longest: float) -> float:
        """Returns the remaining seconds, but at most ``longest``."""
        return longest if self._end is None else max(0.0, min(longest, self._end - time.monotonic()))

    def check(self, what: str, **ids: str | None) -> None:
        """Raises ``TimeLimitReached`` if the time limit has passed. The message names ``what`` took too long."""
        if self._end is not None and time.monotonic() >= self._end:
            raise TimeLimitReached(f"{what} took longer than {self._seconds:g} s", **ids)
