"""Retention periods, which determine how long unused sessions are kept."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from services.runtime.domain.sessions import LockedSession


class SessionPosition(NamedTuple):
    """A session's position among its company's sessions, ordered by creation time."""

    created_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class OldSessions:
    """A batch of sessions that are older than the retention period.

    ``idle`` sessions haven't had a turn in that period. ``last`` is the position to continue from, or None at the end.
    """

    idle: list[LockedSession]
    last: SessionPosition | None
