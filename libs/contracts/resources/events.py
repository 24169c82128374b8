"""Events of the timeline."""

from typing import Any

from pydantic import BaseModel

from libs.contracts.timestamps import Timestamp


class TimelineEventView(BaseModel):
    """An event of the timeline. `position` counts the company's events; `type` has no prefix or version."""

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
    """`next` goes into `after` to read on."""

    events: list[TimelineEventView]
    has_more: bool
    next: int
