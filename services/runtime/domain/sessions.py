"""Sessions: checks of the caller's permissions, and changes within a transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from libs.contracts.errors import NotFound
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandContext, MessageContext
from libs.contracts.resources import messages as api
from services.runtime.domain.beginnings import NewSession
from services.runtime.domain.conversation import Message
from services.runtime.domain.models import TurnSpending
from services.runtime.domain.turns import LockedTurn

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """A turn to fork a session at. ``position`` is the turn's position in that session."""

    position: int
    has_ended: bool
    have_those_before_ended: bool


@dataclass(frozen=True, slots=True)
class Fork:
    """A new session that starts with the history of another session.

    ``through`` is the position of the last turn to copy, or None to copy all turns. ``expires_after`` is in seconds, or
    None if the new session doesn't expire.
    """

    id: str
    source_id: str
    owner_id: str
    through: int | None
    listed: bool
    expires_after: int | None


@dataclass(frozen=True, slots=True)
class ForkedSession:
    agent_id: str | None
    config_hash: str


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


class SessionCreations(Protocol):
    async def add(self, creations: Sequence[SessionCreation]) -> None:
        """Adds all of the sessions, or none if there is an error.

        Raises ``AlreadyProcessed``, Conflict if an existing or deleted session has the same ID, and QuotaExceeded.
        """


class SessionWriter(Protocol):
    """Changes sessions in the caller's transaction."""

    async def check_quota(self, company_id: str) -> None:
        """Raises QuotaExceeded if the company has reached its session limit."""

    async def fork_point(self, session_id: str, turn_id: str) -> ForkPoint | None:
        """Returns the turn's position in the session, or None if the session contains none of the turn's messages."""

    async def fork(self, fork: Fork) -> ForkedSession | None:
        """Adds the session with the completed turns' messages. Returns None if the ID or the source can't be used."""

    async def find(self, session_id: str) -> LockedSession | None:
        """Returns the session without locking it."""

    async def lock(self, session_id: str) -> LockedSession | None: ...

    async def turn(self, turn_id: str) -> LockedTurn | None:
        """Returns the turn, which may change unless its session is locked."""

    async def live_turns(self, session_id: str) -> list[LockedTurn]:
        """Returns the session's queued, running and waiting turns, in order."""

    async def lock_expired(self, limit: int) -> list[LockedSession]:
        """Locks and returns expired sessions without a queued or running turn, earliest expiry first."""

    async def waiting_turns(self, session_ids: Sequence[str]) -> list[LockedTurn]: ...

    async def cancel(self, turns: list[LockedTurn], events: int) -> dict[str, TurnSpending]:
        """Cancels live turns and closes their waits. Returns each turn's usage so far, by turn ID.

        Each turn reserves ``events`` event numbers. A running turn keeps its worker until its execution has stopped.
        """

    async def set_metadata(self, session_id: str, metadata: dict[str, str]) -> None: ...

    async def set_agent(self, session: NewSession) -> bool:
        """Sets the session's agent. Returns False if the session already has an agent or turns."""

    async def add_messages(self, session_id: str, messages: Sequence[Message]) -> list[api.Message]:
        """Adds messages to the history and returns them. The session must be locked."""

    async def mark_deleting(self, session_id: str, deletion: MessageContext) -> None:
        """Rejects further turns of the session. ``deletion`` is the context of the session's last event."""

    async def is_held(self, session_id: str) -> bool:
        """Returns whether a worker is still executing one of the session's turns."""

    async def deletion(self, session_id: str) -> MessageContext | None:
        """Locks the session. Returns the context passed to ``mark_deleting``, or None if that wasn't called."""

    async def was_deleted(self, session_id: str, company_id: str) -> bool:
        """Returns whether the company has deleted the session and the tombstone still exists."""

    async def remove(self, *session_ids: str) -> None:
        """Deletes the sessions with all their data. Tombstones prevent reuse of their IDs."""


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
