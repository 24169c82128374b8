"""Recorded events, as they are stored and read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from libs.contracts.timeline import RecordedEvent
from services.timeline.domain.usage import TurnUsage

OWNER_UNKNOWN: Final = ""
"""The owner of events about a session whose owner they do not tell: only ``company:read`` sees them."""


@dataclass(slots=True, kw_only=True)
class NewEvent(RecordedEvent):
    """An event to be stored. ``usage`` is in its payload when a turn has ended."""

    usage: TurnUsage | None = None


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """A stretch of the timeline. The next one begins after ``next``; without ``has_more`` there is none yet.

    Read backwards, newest first, the next one begins before ``next``. A page may be short, even empty, while there is
    more: one read looks at a bounded number of events.
    """

    events: Sequence[RecordedEvent]
    next: int
    has_more: bool
