"""Sessions: permission to change them, and their changes within one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from libs.contracts.errors import NotFound
from libs.contracts.identifiers import is_id
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandContext, MessageContext
from libs.contracts.resources import messages as api
from services.runtime.domain.beginnings import NewSession
from services.runtime.domain.conversation import Message
from services.runtime.domain.models import TurnSpending
from services.runtime.domain.turns import LockedTurn


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """A turn whose messages are in a session, at its ``position`` there; those at lower ones come before it."""

    position: int
    has_ended: bool
    have_those_before_ended: bool


@dataclass(frozen=True, slots=True)
class Fork:
    """A session that begins with the history of another one, up to the turn at ``through``; None: all of it.

    ``expires_after``: seconds; None: it stays.
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
        """Adds the sessions and tells of them, in one transaction: all of them, or none when it raises.

        Raises ``AlreadyProcessed``, Conflict for a session that is there, or was, and QuotaExceeded for more than a
        company may have.
        """


class SessionWriter(Protocol):
    """Changes one session within a transaction that the caller commits."""

    async def check_quota(self, company_id: str) -> None:
        """Raises QuotaExceeded when the company has as many sessions as it may have."""

    async def fork_point(self, session_id: str, turn_id: str) -> ForkPoint | None:
        """None when the session has no messages of that turn. Those of a fork keep the turns that they came from."""

    async def fork(self, fork: Fork) -> ForkedSession | None:
        """Adds the session with copies of the messages of completed turns.

        None when the id is or was in use, or the source is no longer active. Messages that the source gets meanwhile
        are not copied.
        """

    async def find(self, session_id: str) -> LockedSession | None:
        """As ``lock``, without the lock: nobody waits for a reader."""

    async def lock(self, session_id: str) -> LockedSession | None: ...

    async def turn(self, turn_id: str) -> LockedTurn | None:
        """Current only under the lock of its session."""

    async def live_turns(self, session_id: str) -> list[LockedTurn]:
        """The queued, running and waiting turns, in order."""

    async def lock_expired(self, limit: int) -> list[LockedSession]:
        """Sessions whose time is over, none of whose turns is queued or runs, the longest expired first."""

    async def waiting_turns(self, session_ids: Sequence[str]) -> list[LockedTurn]: ...

    async def cancel(self, turns: list[LockedTurn], events: int) -> dict[str, TurnSpending]:
        """Ends live turns as cancelled and closes their waits; each gets ``events`` events for it.

        Returns what each of them took until now. A running one keeps its worker until the execution has stopped.
        """

    async def set_metadata(self, session_id: str, metadata: dict[str, str]) -> None: ...

    async def set_agent(self, session: NewSession) -> bool:
        """False unless the session was opened without an agent and has no turns."""

    async def add_messages(self, session_id: str, messages: Sequence[Message]) -> list[api.Message]:
        """Adds to the history before the next turn, under the lock of the session; returns what was added."""

    async def mark_deleting(self, session_id: str, deletion: MessageContext) -> None:
        """Refuses turns from now on; ``deletion`` is the message context of the session's last event."""

    async def is_held(self, session_id: str) -> bool:
        """Whether an execution of this session has not stopped yet."""

    async def deletion(self, session_id: str) -> MessageContext | None:
        """The message context given to ``mark_deleting``; None unless the session is in deletion. Locks the session."""

    async def was_deleted(self, session_id: str, company_id: str) -> bool:
        """Whether the company had this session, and its tombstone is still there."""

    async def remove(self, *session_ids: str) -> None:
        """Deletes the sessions with turns, steps and messages; tombstones keep their ids from being used again."""


def valid_id(name: str, identifier: str) -> str:
    """The id, if it is well-formed; whether there is such an entity is not checked. Raises NotFound."""
    if not is_id(identifier):
        raise NotFound(f"There is no such {name}.")
    return identifier


def readable(session: LockedSession | None, caller: Identity) -> LockedSession:
    """The session, if it exists and the caller may see it. Raises NotFound."""
    if session is None or session.company_id != caller.company_id or not caller.may_read_of(session.owner_id):
        raise NotFound("There is no such session.")
    return session


def writable(session: LockedSession | None, caller: Identity) -> LockedSession:
    """The session, if it exists and the caller may change it. Raises NotFound."""
    if session is None or session.company_id != caller.company_id or not caller.may_write_of(session.owner_id):
        raise NotFound("There is no such session.")
    return session
