"""Events in a company's timeline."""

from typing import Any

from pydantic import BaseModel

from libs.contracts.timestamps import Timestamp


class TimelineEventView(BaseModel):
    """An event in the timeline. `position` is its number in the company's timeline.

    `type` is the short name, such as `turn.completed` for `aes.runtime.turn.completed.v1`.
    """

    id: str
    position: int
    type: str
    source: str
    subject: str
    sequence: int
    time: Timestamp
    correlation_id: str
    causation_id: str | None
    session_id: str | None = None
    turn_id: str | None = None
    data: dict[str, Any]


class EventPage(BaseModel):
    """A page of the timeline. Pass `next` as `after` to get the next page."""

    events: list[TimelineEventView]
    has_more: bool
    next: int
