"""Follows streams of server-sent events through lost connections: nothing is missing and nothing comes twice."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

import httpx

from aes_client.errors import ApiError, ConnectionFailed, UnexpectedAnswer
from aes_client.flows import Call, Close, Deadline, Open, OpenAnswer, Pause, Read
from aes_client.refusals import error_in, refusal
from aes_client.requests import Request, nothing
from aes_client.retries import RetryPolicy
from aes_client.sse import EventParser, ServerEvent

# The service sends a comment after 15 s without an event; longer silence is a lost connection.
SILENCE_SECONDS = 45.0
# Longer than the longest pause between two attempts: what breaks off again and again is given up.
LASTING_SECONDS = 10.0
Taking = Callable[[ServerEvent], Generator[Any, Any, bool]]


@dataclass
class Source:
    """The position in a stream: the request to resume with, and the id of the last event.

    ``request`` begins the stream. Once ``Location`` in its response names the turn, the turn's own events are the
    source. Before that, the same request with the same key finds the turn that it created. ``stayed`` says that the
    last connection still sent something, if only a comment, after ten seconds.
    """

    request: Request[Any]
    last_id: str = ""
    turn_path: str = ""
    stayed: bool = False

    def next_request(self, seconds: float) -> Request[Any]:
        request = self.request
        if self.turn_path:
            request = Request("GET", f"{self.turn_path}events/", nothing)
        headers = {**request.headers, "Accept": "text/event-stream"}
        if self.last_id and request.method == "GET":
            headers["Last-Event-ID"] = self.last_id
        return replace(request, headers=headers, timeout=seconds)

    def opened(self, response: httpx.Response) -> None:
        location = response.headers.get("location", "")
        if location:
            self.turn_path = "/" + location.partition("/api/v1/")[2]


class _Lost(Exception):
    """A connection did not get to the stream's end; ``problem`` says why."""

    def __init__(self, problem: Exception) -> None:
        super().__init__(str(problem))
        self.problem = problem


def follow(
    source: Source,
    take: Taking,
    policy: RetryPolicy,
    deadline: Deadline,
    on_lost: Callable[[Exception], Any] | None = None,
) -> Generator[Any, Any, None]:
    """Gives events to ``take`` until that says to stop, or the stream is at its end.

    Resumes after a lost connection and calls ``on_lost``. Raises the error of a refused request, and
    ``ConnectionFailed`` when the service stays unreachable.
    """
    source.request = source.request.with_key()
    failures = 0
    while True:
        seen, source.stayed = source.last_id, False
        try:
            yield from _read(source, take, deadline)
        except _Lost as lost:
            deadline.check("The stream")
            problem = lost.problem
        else:
            return
        failures = 1 if source.stayed or source.last_id != seen else failures + 1
        pause = policy.pause_after(failures, problem)
        if pause is None:
            if isinstance(problem, ApiError):
                raise problem
            raise ConnectionFailed(f"{source.request.path}: {problem or type(problem).__name__}") from problem
        if on_lost is not None:
            yield Call(on_lost, (problem,))
        yield Pause(pause)


def _read(source: Source, take: Taking, deadline: Deadline) -> Generator[Any, Any, None]:
    """Reads one connection to the stream's end. Raises ``_Lost``."""
    opened: OpenAnswer = yield from _kept(Open(source.next_request(deadline.left(SILENCE_SECONDS) or 0.001)))
    response = opened.response
    if response.status_code == 204:
        return
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        yield from _refused(opened)
    source.opened(response)
    parser, began = EventParser(), deadline.now()
    while piece := (yield from _kept(Read(opened))):
        source.stayed = deadline.now() - began >= LASTING_SECONDS
        for event in parser.feed(piece):
            if event.name == "error":
                raise _Lost(error_in(event.data))
            source.last_id = event.id or source.last_id
            if event.data and (yield from take(event)):
                yield Close(opened)
                return
        deadline.check("The stream")
    raise _Lost(ConnectionFailed("the stream broke off"))


def _refused(opened: OpenAnswer) -> Generator[Any, Any, None]:
    """Raises the error of a response that isn't a stream."""
    body = b""
    while piece := (yield from _kept(Read(opened))):
        body += piece
    response = opened.response
    if response.status_code < 400:
        raise UnexpectedAnswer(f"{response.request.url} answered {response.status_code} without a stream of events")
    raise _Lost(refusal(response, body))


def _kept(step: Open | Read) -> Generator[Any, Any, Any]:
    try:
        return (yield step)
    except httpx.TransportError as problem:
        raise _Lost(problem) from problem
