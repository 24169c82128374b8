"""Sessions: permission to write, and changes within a transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from libs.contracts.errors import NotFound
from libs.contracts.identifiers import is_id
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
    """A turn whose messages a session contains. ``position`` is its position in that session."""

    position: int
    has_ended: bool
    have_those_before_ended: bool


@dataclass(frozen=True, slots=True)
class Fork:
    """A session that starts with the history of another session.

    ``through``: the last turn to copy, or None for all. ``expires_after``: seconds, or None if the session doesn't
    expire.
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
    """A session and the command that creates it."""

    session: NewSession
    command: CommandContext


class SessionCreations(Protocol):
    async def add(self, creations: Sequence[SessionCreation]) -> None:
        """Adds the sessions and their events in one transaction. If there is an error, adds none.

        Raises ``AlreadyProcessed``, Conflict if the ID belongs to an existing or deleted session, and QuotaExceeded
        above the company's limit.
        """


class SessionWriter(Protocol):
    """Changes one session in the caller's transaction."""

    async def check_quota(self, company_id: str) -> None:
        """Raises QuotaExceeded if the company has reached its session limit."""

    async def fork_point(self, session_id: str, turn_id: str) -> ForkPoint | None:
        """Returns None if the session doesn't contain messages of that turn.

        Messages in a fork keep their original turns.
        """

    async def fork(self, fork: Fork) -> ForkedSession | None:
        """Adds the session with copies of completed turns' messages.

        Returns None if the ID is or was in use, or the source is no longer active. Doesn't copy messages that are added
        to the source during the fork.
        """

    async def find(self, session_id: str) -> LockedSession | None:
        """Like ``lock``, but doesn't lock the session, so that nothing waits for readers."""

    async def lock(self, session_id: str) -> LockedSession | None: ...

    async def turn(self, turn_id: str) -> LockedTurn | None:
        """Returns the turn. It may change unless its session is locked."""

    async def live_turns(self, session_id: str) -> list[LockedTurn]:
        """Returns the queued, running and waiting turns, in order."""

    async def lock_expired(self, limit: int) -> list[LockedSession]:
        """Locks expired sessions without a queued or running turn. The longest expired come first."""

    async def waiting_turns(self, session_ids: Sequence[str]) -> list[LockedTurn]: ...

    async def cancel(self, turns: list[LockedTurn], events: int) -> dict[str, TurnSpending]:
        """Cancels live turns and closes their waits. Each turn reserves ``events`` event numbers.

        Returns each turn's usage so far. A running turn keeps its worker until its execution has stopped.
        """

    async def set_metadata(self, session_id: str, metadata: dict[str, str]) -> None: ...

    async def set_agent(self, session: NewSession) -> bool:
        """Sets the agent. Returns False if the session already has an agent or turns."""

    async def add_messages(self, session_id: str, messages: Sequence[Message]) -> list[api.Message]:
        """Adds messages to the history before the next turn, under the session's lock. Returns them."""

    async def mark_deleting(self, session_id: str, deletion: MessageContext) -> None:
        """Rejects further turns. ``deletion`` is the message context of the session's last event."""

    async def is_held(self, session_id: str) -> bool:
        """Returns whether an execution of this session is still running."""

    async def deletion(self, session_id: str) -> MessageContext | None:
        """Returns the context passed to ``mark_deleting``, or None if the session isn't being deleted.

        Locks the session.
        """

    async def was_deleted(self, session_id: str, company_id: str) -> bool:
        """Returns whether the company's deleted session still has a tombstone."""

    async def remove(self, *session_ids: str) -> None:
        """Deletes the sessions with their turns, steps and messages. Tombstones prevent reuse of their IDs."""


def valid_id(name: str, identifier: str) -> str:
    """Returns a well-formed ID without checking whether it exists. Raises NotFound."""
    if not is_id(identifier):
        raise NotFound(f"There is no such {name}.")
    return identifier


def require(name: str, found: T | None) -> T:
    """Returns what was found. Raises NotFound for None."""
    if found is None:
        raise NotFound(f"There is no such {name}.")
    return found


def readable(session: LockedSession | None, caller: Identity) -> LockedSession:
    """Returns the session if it exists and the caller may see it. Raises NotFound."""
    if session is None or session.company_id != caller.company_id or not caller.may_read_of(session.owner_id):
        raise NotFound("There is no such session.")
    return session


def writable(session: LockedSession | None, caller: Identity) -> LockedSession:
    """Returns the session if it exists and the caller may change it. Raises NotFound."""
    if session is None or session.company_id != caller.company_id or not caller.may_write_of(session.owner_id):
        raise NotFound("There is no such session.")
    return session
