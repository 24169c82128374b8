"""Copies of artifacts among the company's files: a conversation with the service that keeps those.

An artifact is ``copying`` or ``removing`` until that service has answered. The command to it is chosen once and sent
until it is answered: whoever crashed in between, it is carried out once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from libs.contracts.errors import Conflict
from libs.contracts.identity import Identity
from libs.eventing import MessageContext
from services.artifacts.domain.artifacts import StoredArtifact

ErrandState = Literal["copying", "removing"]
PlatformState = Literal["none", "copied"] | ErrandState


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformPlace:
    """Where an artifact stands. ``file_id``: of its copy, also of one that was removed."""

    artifact: StoredArtifact
    state: PlatformState
    file_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """A command to the service that keeps files, on its way."""

    command_id: str
    state: ErrandState
    artifact_id: str
    session_id: str
    file_id: str
    name: str
    content_type: str
    identity: Identity
    correlation_id: str


class NotCopied(Conflict):
    def __init__(self) -> None:
        super().__init__("The artifact was not copied to the platform.")


class PlatformWriter(Protocol):
    """Inside one transaction, which the caller commits."""

    async def lock(self, artifact_id: str) -> PlatformPlace | None:
        """Kept from every other writer until the end of the transaction."""
        ...

    async def lock_file(self, file_id: str) -> PlatformPlace | None:
        """The artifact whose copy this file is."""
        ...

    async def lock_errand(self, command_id: str) -> PlatformPlace | None:
        """The artifact for which this command is on its way."""
        ...

    async def begin(
        self, artifact_id: str, state: ErrandState, file_id: str, caller: Identity, correlation_id: str
    ) -> None:
        """Choose the command that is to be sent."""
        ...

    async def settle(self, artifact_id: str, state: Literal["none", "copied"], file_id: str | None) -> None:
        """No command is on its way any more."""
        ...

    async def wait(self, artifact_id: str, state: ErrandState, context: MessageContext) -> None:
        """The command with this context ends when the artifact's errand does."""
        ...

    async def waiting(self, artifact_ids: Sequence[str]) -> list[tuple[ErrandState, MessageContext]]:
        """The commands that waited for errands of these artifacts; they wait no longer."""
        ...

    async def not_sent(self, artifact_ids: Sequence[str]) -> list[str]:
        """Those of them for which no command was sent."""
        ...


class Errands(Protocol):
    """Each method is a transaction of its own."""

    async def due(self, seconds: float, limit: int) -> list[Errand]:
        """Those that were not sent, or so long ago that it may have been lost."""
        ...

    async def sent(self, command_ids: Sequence[str]) -> None: ...


class ErrandSender(Protocol):
    async def send(self, errand: Errand) -> None:
        """Raises ``ServiceUnavailable`` when the bus did not take it; it may be sent again."""
        ...
