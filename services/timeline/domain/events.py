"""The timeline's events, as they're stored and read."""

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
