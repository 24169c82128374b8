"""Sessions, and checks of the caller's permissions."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeVar

from libs.contracts.errors import NotFound
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandContext
from services.runtime.domain.beginnings import NewSession

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """A turn to fork a session at. ``position`` is the turn's position in that session."""

    position: int
    has_ended: bool
    have_those_before_ended: bool


@dataclass(frozen=True, slots=True)
class LockedSession:
    id: str
    company_id: str
    owner_id: str
    active: bool


@dataclass(frozen=True, slots=True)
class SessionCreation:
    session: NewSession
    command: CommandContext


class SessionPosition(NamedTuple):
    """A session's position among its company's sessions, ordered by creation time."""

    created_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class OldSessionBatch:
    """A batch of sessions that are older than the retention period.

    ``idle`` sessions haven't had a turn in that period. ``last`` is the position to continue from, or None at the end.
    """

    idle: list[LockedSession]
    last: SessionPosition | None


def require(name: str, found: T | None) -> T:
    """Returns ``found``. Raises NotFound if it's None."""
    if found is None:
        raise NotFound(f"There is no {name} with this ID.")
    return found


def readable(session: LockedSession | None, caller: Identity) -> LockedSession:
    """Returns the session. Raises NotFound unless it exists and the caller may see it."""
    if session is None or session.company_id != caller.company_id or not caller.may_read_of(session.owner_id):
        raise NotFound("There is no session with this ID.")
    return session


def writable(session: LockedSession | None, caller: Identity) -> LockedSession:
    """Returns the session. Raises NotFound unless it exists and the caller may change it."""
    if session is None or session.company_id != caller.company_id or not caller.may_write_of(session.owner_id):
        raise NotFound("There is no session with this ID.")
    return session
