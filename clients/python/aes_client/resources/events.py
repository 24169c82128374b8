"""The timeline: a company's recorded events."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from aes_client.flows import Deadline, Emit, Emitting
from aes_client.models import TimelineEventView
from aes_client.requests import Request, given, nothing
from aes_client.resource import R, Resource, iteration
from aes_client.sse import ServerEvent
from aes_client.streams import Source, follow

_PATH = "/events/"


class Events(Resource[R]):
    """The operations of ``client.events``.

    ``type`` is a comma-separated list of event types, or of prefixes such as ``turn.*``.
    """

    @iteration
    def list(
        self,
        *,
        after: int | None = None,
        newest_first: bool = False,
        type: str | None = None,
        correlation_id: str | None = None,
        session_id: str | None = None,
        turn_id: str | None = None,
    ) -> Emitting[TimelineEventView]:
        """Yields recorded events, oldest first unless ``newest_first`` is set.

        ``after`` is a position in the timeline. Only later events are returned.
        """
        query = given(type=type, correlation_id=correlation_id, session_id=session_id, turn_id=turn_id, after=after)
        order = {"order": "desc"} if newest_first else {}
        yield from self._pages(_PATH, "events", TimelineEventView, {**query, **order})

    @iteration
    def follow(
        self,
        *,
        after: int | None = None,
        type: str | None = None,
        correlation_id: str | None = None,
        session_id: str | None = None,
        turn_id: str | None = None,
        timeout: float | None = None,
        on_lost: Callable[[Exception], Any] | None = None,
    ) -> Emitting[TimelineEventView]:
        """Yields events as they happen, indefinitely. Starts after the position ``after``, or with the next event.

        If the connection is lost, calls ``on_lost`` and resumes without losing or repeating an event. Raises
        ``TimeLimitReached`` after ``timeout`` seconds.
        """
        query = given(after=after, type=type, correlation_id=correlation_id, session_id=session_id, turn_id=turn_id)
        source = Source(Request("GET", _PATH, nothing, query=query))
        yield from follow(source, _take, self._runner.policy, Deadline(timeout), on_lost)


def _take(event: ServerEvent) -> Generator[Any, Any, bool]:
    yield Emit(TimelineEventView.model_validate_json(event.data))
    return False
