"""The timeline's events, as they're stored and read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from libs.contracts.timeline import RecordedEvent
from services.timeline.domain.usage import TurnUsage

OWNER_UNKNOWN: Final = ""
"""The placeholder owner of events whose session's owner is unknown. Only callers with ``company:read`` see them."""


@dataclass(slots=True, kw_only=True)
class NewEvent(RecordedEvent):
    """An event to store. ``usage`` is only set if the event ends a turn."""

    usage: TurnUsage | None = None


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """A page of the timeline. The next page starts after ``next``, or before it when reading backwards.

    If ``has_more`` is false, there's no next page yet. If it's true, the page may still be short or even empty, because
    a read examines a limited number of events.
    """

    events: Sequence[RecordedEvent]
    next: int
    has_more: bool
