"""Retention: how long unused sessions stay."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from services.runtime.domain.sessions import LockedSession


class SessionPlace(NamedTuple):
    """A session's position in a company's sessions by creation."""

    created_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class OldSessions:
    """Sessions older than the retention period; ``idle`` ones had no turn for that long either.

    ``last``: the position to continue from, None if there are no more.
    """

    idle: list[LockedSession]
    last: SessionPlace | None


class RetentionReads(Protocol):
    async def session_days(self, company_id: str) -> int | None:
        """The company's own number of days."""

    async def next_company(self, after: str, default: int | None) -> tuple[str, int | None] | None:
        """The next company with sessions, by id, and its retention in days; None retains them forever."""


class RetentionWriter(Protocol):
    async def set_session_days(self, company_id: str, days: int | None) -> None: ...

    async def lock_old(self, company_id: str, days: int, *, after: SessionPlace | None, limit: int) -> OldSessions:
        """Reads up to ``limit`` sessions, and locks the idle ones that no other transaction has locked."""
