"""Follows streams of server-sent events across lost connections, without losing or repeating an event."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

import httpx

from aes_client.errors import ApiError, ConnectionFailed, UnexpectedResponse
from aes_client.flows import Call, Close, Deadline, Open, OpenResponse, Pause, Read
from aes_client.refusals import error_in, refusal
from aes_client.requests import Request, nothing
from aes_client.retries import RetryPolicy
from aes_client.sse import EventParser, ServerEvent

# The service sends a comment after 15 s without an event, so a silent connection is lost.
SILENCE_SECONDS = 45.0
# Longer than the longest pause between attempts, so the client eventually gives up on a stream that keeps breaking.
LASTING_SECONDS = 10.0
Taking = Callable[[ServerEvent], Generator[Any, Any, bool]]


@dataclass
class Source:
    """The request that starts or resumes a stream, and the ID of the last event received.

    Once the ``Location`` header names the turn, the stream resumes from the turn's events. Until then, the client
    retries the request with the same idempotency key, which continues the same turn. ``stayed`` is true if the last
    connection was still receiving data after ten seconds.
    """

    request: Request[Any]
    last_id: str = ""
    stayed: bool = False

    def next_request(self, seconds: float) -> Request[Any]:
        headers = {**self.request.headers, "Accept": "text/event-stream"}
        if self.last_id and self.request.method == "GET":
            headers["Last-Event-ID"] = self.last_id
        return replace(self.request, headers=headers, timeout=seconds)

    def opened(self, response: httpx.Response) -> None:
        location = response.headers.get("location", "")
        if location:
            self.request = Request("GET", f"/{location.partition('/api/v1/')[2]}events/", nothing)


class _Lost(Exception):
    """The connection was lost before the end of the stream."""

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
    """Passes events to ``take`` until ``take`` returns true or the stream ends.

    If the connection is lost, calls ``on_lost`` and resumes. Raises the error of a rejected request, and
    ``ConnectionFailed`` if the service remains unreachable.
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
            reason = problem or type(problem).__name__
            raise ConnectionFailed(f"The stream {source.request.path} failed: {reason}") from problem
        if on_lost is not None:
            yield Call(on_lost, (problem,))
        yield Pause(pause)


def _read(source: Source, take: Taking, deadline: Deadline) -> Generator[Any, Any, None]:
    """Reads the events of one connection until the stream ends. Raises ``_Lost`` if the connection is lost."""
    opened: OpenResponse = yield from _kept(Open(source.next_request(deadline.left(SILENCE_SECONDS) or 0.001)))
    response = opened.response
    if response.status_code == 204:
        return
    if response.is_error:
        raise _Lost(refusal(response))
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        raise UnexpectedResponse(
            f"{response.request.url} returned status {response.status_code}, but not an event stream"
        )
    source.opened(response)
    parser, began = EventParser(), time.monotonic()
    while piece := (yield from _kept(Read(opened))):
        source.stayed = time.monotonic() - began >= LASTING_SECONDS
        for event in parser.feed(piece):
            if event.name == "error":
                raise _Lost(error_in(event.data))
            source.last_id = event.id or source.last_id
            if event.data and (yield from take(event)):
                yield Close(opened)
                return
        deadline.check("The stream")
    raise _Lost(ConnectionFailed("the stream was interrupted"))


def _kept(step: Open | Read) -> Generator[Any, Any, Any]:
    try:
        return (yield step)
    except httpx.TransportError as problem:
        raise _Lost(problem) from problem
