"""Retention periods, which determine how long unused sessions are kept."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

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


class RetentionReads(Protocol):
    async def session_days(self, company_id: str) -> int | None:
        """Returns the company's own retention period in days, or None if it hasn't set one."""

    async def next_company(self, after: str, default: int | None) -> tuple[str, int | None] | None:
        """Returns the next company with sessions and its period in days, which is None without a limit.

        Returns None after the last company.
        """


class RetentionWriter(Protocol):
    async def set_session_days(self, company_id: str, days: int | None) -> None: ...

    async def lock_old(self, company_id: str, days: int, *, after: SessionPosition | None, limit: int) -> OldSessions:
        """Reads up to ``limit`` sessions and locks the idle ones. Sessions that are already locked are skipped."""
