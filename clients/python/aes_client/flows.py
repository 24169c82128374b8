"""Flows: generators that yield the steps of what the client does, and get the outcome of each.

All logic stands in flows, once. Two runners carry the steps out, one for blocking and one for asynchronous programs. An
exception of a step is raised at its place in the flow.
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
    """Sends a request once; the outcome is its ``httpx.Response``, whatever its status."""

    request: Request[Any]


@dataclass(frozen=True)
class Open:
    """Sends a request once; the outcome is an ``OpenAnswer``, whose body has not been read."""

    request: Request[Any]


@dataclass
class OpenAnswer:
    """An answer that is read piece by piece."""

    response: httpx.Response
    pieces: Any


@dataclass(frozen=True)
class Read:
    """Reads on; the outcome is the next piece, empty at the end."""

    answer: OpenAnswer


@dataclass(frozen=True)
class Close:
    """Closes an answer that is not read to its end."""

    answer: OpenAnswer


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Call:
    """Calls a function of the user's program, which may be a coroutine function; the outcome is its result."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] | None = None


@dataclass(frozen=True)
class Together:
    """Runs flows side by side; the outcome is the list of their results and exceptions, in their order."""

    flows: Sequence[Generator[Any, Any, Any]]


@dataclass(frozen=True)
class Emit(Generic[T]):
    """Yields an item to the caller."""

    item: T


class NeverAnswered(httpx.ConnectError):
    """The outcome of ``Send`` and ``Open`` when no connection is made and the service has never answered this client.

    That may be a wrong address, unlike the same after an answer, which is an outage. ``timed_out``: the attempt has
    waited for longer than a refusal takes.
    """

    def __init__(self, problem: httpx.TransportError) -> None:
        super().__init__(str(problem) or type(problem).__name__, request=problem.request)
        self.timed_out = isinstance(problem, httpx.ConnectTimeout)


Step = Send | Open | Read | Close | Pause | Call | Together
Flow = Generator[Step, Any, T]
Emitting = Generator[Step | Emit[T], Any, None]


class Deadline:
    """A time limit in seconds; without one it never comes."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds = seconds
        self._end = None if seconds is None else clock() + seconds

    def now(self) -> float:
        return self._clock()

    def left(self, longest: float) -> float:
        """The seconds that are left, at most ``longest``."""
        return longest if self._end is None else max(0.0, min(longest, self._end - self._clock()))

    def check(self, what: str, **ids: str | None) -> None:
        """Raises ``TimeLimitReached`` when the time is over."""
        if self._end is not None and self._clock() >= self._end:
            raise TimeLimitReached(f"{what} took longer than {self._seconds:g} s", **ids)


def batches(items: Iterable[T], size: int) -> Generator[list[T], None, None]:
    """Cuts items into lists of that size."""
    batch: list[T] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
