"""Retention: how long unused sessions are kept."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from services.runtime.domain.sessions import LockedSession


class SessionPlace(NamedTuple):
    """A session's position among a company's sessions, by creation time."""

    created_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class OldSessions:
    """Sessions older than the retention period. ``idle`` ones haven't had a turn for that long, either.

    ``last``: the position from which to continue, or None if there are no more.
    """

    idle: list[LockedSession]
    last: SessionPlace | None


class RetentionReads(Protocol):
    async def session_days(self, company_id: str) -> int | None:
        """Returns the company's own retention in days."""

    async def next_company(self, after: str, default: int | None) -> tuple[str, int | None] | None:
        """Returns the next company with sessions, by ID, and its retention in days. None means unlimited."""


class RetentionWriter(Protocol):
    async def set_session_days(self, company_id: str, days: int | None) -> None: ...

    async def lock_old(self, company_id: str, days: int, *, after: SessionPlace | None, limit: int) -> OldSessions:
        """Reads up to ``limit`` sessions and locks the idle ones. Skips those that another transaction has locked."""
