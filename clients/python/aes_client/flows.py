"""Flows: generators that yield steps, such as ``Send``, and receive the outcome of each step.

A blocking or an asynchronous runner executes the steps. If a step fails, ``yield`` raises the step's exception.
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
    """A step that sends a request once. The outcome is the ``httpx.Response``, whatever the status."""

    request: Request[Any]


@dataclass(frozen=True)
class Open:
    """A step that sends a request once, and reads only the body of an error. The outcome is an ``OpenResponse``."""

    request: Request[Any]


@dataclass
class OpenResponse:
    """A response whose body is read piece by piece."""

    response: httpx.Response
    pieces: Any


@dataclass(frozen=True)
class Read:
    """A step that reads the next piece of a response's body. The outcome is empty at the end."""

    answer: OpenResponse


@dataclass(frozen=True)
class Close:
    """A step that closes a response early."""

    answer: OpenResponse


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Call:
    """A step that calls a function of the user's program. The outcome is the function's result."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] | None = None


@dataclass(frozen=True)
class Together:
    """A step that runs flows concurrently. The outcome is a list with each flow's result or exception, in order."""

    flows: Sequence[Generator[Any, Any, Any]]


@dataclass(frozen=True)
class Emit(Generic[T]):
    """A step that yields an item to the caller."""

    item: T


class NeverConnected(httpx.ConnectError):
    """Connecting failed, and the service has never responded to this client. The address is probably wrong.

    ``timed_out`` is true if the attempt timed out instead of being refused.
    """

    def __init__(self, problem: httpx.TransportError) -> None:
        super().__init__(str(problem) or type(problem).__name__, request=problem.request)
        self.timed_out = isinstance(problem, httpx.ConnectTimeout)


Step = Send | Open | Read | Close | Pause | Call | Together
Flow = Generator[Step, Any, T]
Emitting = Generator[Step | Emit[T], Any, None]


class Deadline:
    """A time limit in seconds, or ``None`` for no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self, longest: float) -> float:
        """Returns the remaining seconds, but at most ``longest``."""
        return longest if self._end is None else max(0.0, min(longest, self._end - time.monotonic()))

    def check(self, what: str, **ids: str | None) -> None:
        """Raises ``TimeLimitReached`` if the time limit has passed. ``what`` is the subject of the message."""
        if self._end is not None and time.monotonic() >= self._end:
            raise TimeLimitReached(f"{what} took longer than {self._seconds:g} s", **ids)
