"""Views of operators and of companies on the installation, and the ports behind them."""

import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from libs.contracts.errors import NotFound, PermissionDenied
from libs.contracts.identity import Identity, Scope
from libs.eventing.dead_letters import DeadLetter, DeadLetterTopic, ReplayOutcome, TopicContent
from libs.eventing.lag import GroupLag

_ID: Final = re.compile(r"([a-z-]{1,100})\.(0|[1-9][0-9]{0,17})", re.ASCII)


@dataclass(frozen=True, slots=True)
class OperationsView:
    """A caller's view: of everything, or of what belongs to one company."""

    company_id: str | None

    @property
    def is_whole(self) -> bool:
        return self.company_id is None

    def shows(self, letter: DeadLetter) -> bool:
        """A letter that names no company, or several, is for operators of the installation only."""
        return self.company_id is None or letter.company_id == self.company_id


def view_of(reader: Identity) -> OperationsView:
    """Raises ``PermissionDenied`` for a key that sees neither the installation nor its whole company."""
    if reader.allows(Scope.INSTALLATION_READ):
        return OperationsView(None)
    if reader.reads_company:
        return OperationsView(reader.company_id)
    raise PermissionDenied("The credential lacks the scope company:read, or installation:read.")


def replay_view_of(writer: Identity) -> OperationsView:
    """The view on letters that the caller may replay. Raises ``PermissionDenied`` when it is none at all."""
    if writer.allows(Scope.INSTALLATION_WRITE):
        return OperationsView(None)
    if writer.allows(Scope.COMPANY_WRITE):
        return OperationsView(writer.company_id)
    raise PermissionDenied("The credential lacks the scope company:write, or installation:write.")


def letter_id(topic: str, offset: int) -> str:
    return f"{topic}.{offset}"


def parse_letter_id(text: str) -> tuple[str, int]:
    """Topic and offset of a dead letter. Raises ``NotFound``."""
    found = _ID.fullmatch(text)
    if found is None:
        raise no_such_letter()
    return found[1], int(found[2])


def no_such_letter() -> NotFound:
    """The same for a letter of another company as for one that is not there."""
    return NotFound("There is no dead letter with this id.")


ReplicaStatus = Literal["ready", "not ready", "unreachable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaHealth:
    """One process of a service. ``reason`` says why it is not ready, or could not be asked; empty when ready."""

    service: str
    address: str
    status: ReplicaStatus
    version: str | None = None
    reason: str = ""


class ServiceHealth(Protocol):
    async def replicas(self) -> Sequence[ReplicaHealth]:
        """All processes whose addresses are known. Raises nothing, and answers within a few seconds."""


class ConsumerGroups(Protocol):
    async def lag(self) -> Sequence[GroupLag]:
        """Raises ``BusUnavailable``."""


class DeadLetterSession(Protocol):
    """A connection to the dead-letter topics."""

    async def contents(self, wanted: Sequence[DeadLetterTopic]) -> dict[DeadLetterTopic, TopicContent]:
        """The content of each wanted topic that exists."""

    async def messages(self, topic: DeadLetterTopic, first: int, end: int) -> Sequence[DeadLetter]:
        """Letters with offsets from ``first`` to before ``end``, oldest first, without their payloads."""

    async def message(self, topic: DeadLetterTopic, offset: int) -> DeadLetter:
        """Raises ``NotFound`` when there is none."""

    async def replay(self, topic: DeadLetterTopic, offset: int) -> ReplayOutcome:
        """Sends the letter to where it came from, unless that was done before.

        Raises ``ReplayOvertaken`` when another process has begun to replay the topic; nothing was sent then.
        """


class DeadLetterBox(Protocol):
    def open(self) -> AbstractAsyncContextManager[DeadLetterSession]:
        """Raises ``BusUnavailable``, also when the broker fails meanwhile."""
