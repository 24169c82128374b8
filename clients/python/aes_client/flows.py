"""Flows: generators that yield the client's steps and receive their outcomes.

All logic is written once, as flows. A blocking and an asynchronous runner execute the steps. An exception in a step is
raised at its ``yield``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import httpx

from aes_client.errors import TimeLimitReached
from aes_client.requests import Request

T = TypeVar("T")


@dataclass(frozen=True)
class Send:
    """Sends a request once. The outcome is its ``httpx.Response``, whatever its status."""

    request: Request[Any]


@dataclass(frozen=True)
class Open:
    """Sends a request once. The outcome is an ``OpenResponse`` with an unread body."""

    request: Request[Any]


@dataclass
class OpenResponse:
    """A response whose body is read in pieces."""

    response: httpx.Response
    pieces: Any


@dataclass(frozen=True)
class Read:
    """Reads the next piece of a body. The outcome is empty at the end."""

    answer: OpenResponse


@dataclass(frozen=True)
class Close:
    """Closes a response before its end."""

    answer: OpenResponse


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Call:
    """Calls a function of the user's program. The outcome is its result. It can be a coroutine function."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] | None = None


@dataclass(frozen=True)
class Together:
    """Runs flows concurrently. The outcome is the list of their results and exceptions, in the order of ``flows``."""

    flows: Sequence[Generator[Any, Any, Any]]


@dataclass(frozen=True)
class Emit(Generic[T]):
    """Yields an item to the caller."""

    item: T


class NeverConnected(httpx.ConnectError):
    """The outcome of ``Send`` and ``Open`` if connecting fails and the service has never answered this client.

    This suggests a wrong address; after a first response, it would be an outage. ``timed_out``: the attempt timed out
    instead of being refused.
    """

    def __init__(self, problem: httpx.TransportError) -> None:
        super().__init__(str(problem) or type(problem).__name__, request=problem.request)
        self.timed_out = isinstance(problem, httpx.ConnectTimeout)


Step = Send | Open | Read | Close | Pause | Call | Together
Flow = Generator[Step, Any, T]
Emitting = Generator[Step | Emit[T], Any, None]


class Deadline:
    """A time limit in seconds. ``None`` never expires."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds = seconds
        self._end = None if seconds is None else clock() + seconds

    def now(self) -> float:
        return self._clock()

    def left(self, longest: float) -> float:
        """Returns the remaining seconds, at most ``longest``."""
        return longest if self._end is None else max(0.0, min(longest, self._end - self._clock()))

    def check(self, what: str, **ids: str | None) -> None:
        """Raises ``TimeLimitReached`` once the time is over."""
        if self._end is not None and self._clock() >= self._end:
            raise TimeLimitReached(f"{what} took longer than {self._seconds:g} s", **ids)


def batches(items: Iterable[T], size: int) -> Generator[list[T], None, None]:
    """Splits items into lists of up to ``size``."""
    batch: list[T] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
