"""Recorded events, as they are stored and read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from libs.contracts.timeline import RecordedEvent
from services.timeline.domain.usage import TurnUsage

OWNER_UNKNOWN: Final = ""
"""The owner of session events that don't name one: only ``company:read`` sees them."""


@dataclass(slots=True, kw_only=True)
class NewEvent(RecordedEvent):
    """An event to store. ``usage`` comes from the payload of an ended turn."""

    usage: TurnUsage | None = None


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """A stretch of the timeline. The next one starts after ``next``; without ``has_more`` there is none yet.

    Read backwards, newest first, the next one starts before ``next``. A page may be short, even empty, while more
    follow: each read examines a bounded number of events.
    """

    events: Sequence[RecordedEvent]
    next: int
    has_more: bool
