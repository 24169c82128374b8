"""Copies of artifacts among the company's files, which ingestion keeps.

An artifact is ``copying`` or ``removing`` from the commit that records the command to ingestion until its answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from libs.contracts.errors import Conflict
from libs.contracts.identity import Identity
from libs.contracts.messages import MessageContext
from services.artifacts.domain.artifacts import StoredArtifact

InFlightState = Literal["copying", "removing"]
PlatformState = Literal["none", "copied"] | InFlightState


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyState:
    """An artifact and the state of its copy. ``file_id``: of the copy, also of one that was removed."""

    artifact: StoredArtifact
    state: PlatformState
    file_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundCommand:
    """A command to ingestion that has not been answered; ``copy.state`` says which one."""

    command_id: str
    copy: CopyState
    identity: Identity
    correlation_id: str


class NotCopied(Conflict):
    def __init__(self) -> None:
        super().__init__("The artifact was not copied to the platform.")


class PlatformWriter(Protocol):
    """Works inside one transaction, which the caller commits."""

    async def lock(self, artifact_id: str) -> CopyState | None:
        """Locks a stored artifact until the end of the transaction."""

    async def lock_file(self, file_id: str) -> CopyState | None:
        """Locks the artifact whose copy this file is."""

    async def lock_command(self, command_id: str) -> CopyState | None:
        """Locks the artifact for which this command was sent."""

    async def begin(self, command: OutboundCommand) -> None:
        """Notes that the command is sent with this transaction."""

    async def settle(self, artifact_id: str, state: Literal["none", "copied"], file_id: str | None) -> None:
        """Notes that no answer is awaited any more."""

    async def wait(self, artifact_id: str, state: InFlightState, context: MessageContext) -> None:
        """Lets the command with this context end when the answer arrives."""

    async def take_waiting(self, artifact_id: str) -> list[tuple[InFlightState, MessageContext]]:
        """The commands that waited for the answer; they wait no longer."""

    async def unanswered(self, seconds: float, limit: int) -> Sequence[OutboundCommand]:
        """Commands last sent at least ``seconds`` ago, noted as sent again. Each is given to one caller."""
