"""The timeline's events, as they're stored and read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from libs.contracts.timeline import RecordedEvent
from services.timeline.domain.usage import TurnUsage

OWNER_UNKNOWN: Final = ""
"""The owner of a session's event if the real one is unknown. Only callers with ``company:read`` see such events."""


@dataclass(slots=True, kw_only=True)
class NewEvent(RecordedEvent):
    """An event to store. ``usage``: the usage of a turn, if the event says that a turn has ended."""

    usage: TurnUsage | None = None


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """A page of the timeline. The next page starts after ``next``. Without ``has_more``, there's no next page yet.

    When reading backwards, newest first, the next page starts before ``next``. A page may be short or even empty
    although more pages follow, because each read examines a limited number of events.
    """

    events: Sequence[RecordedEvent]
    next: int
    has_more: bool
