"""Retention: the days for which unused sessions are kept."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from services.runtime.domain.sessions import LockedSession


class SessionPlace(NamedTuple):
    """A session's place in the order in which a company's sessions were made."""

    created_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class OldSessions:
    """Sessions that were made longer ago than they are kept; ``idle`` are those without a turn for as long.

    ``last``: the place to continue after, None when there are no more.
    """

    idle: list[LockedSession]
    last: SessionPlace | None


class RetentionReads(Protocol):
    async def session_days(self, company_id: str) -> int | None:
        """The company's own number of days."""

    async def next_company(self, after: str, default: int | None) -> tuple[str, int | None] | None:
        """The next company with sessions, in order of ids, and the days for which it keeps them; None keeps them."""


class RetentionWriter(Protocol):
    async def set_session_days(self, company_id: str, days: int | None) -> None: ...

    async def lock_old(self, company_id: str, days: int, *, after: SessionPlace | None, limit: int) -> OldSessions:
        """Reads up to ``limit`` sessions and locks the idle ones that no other transaction has locked."""
