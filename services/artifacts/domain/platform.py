"""Copies of artifacts in the company's files.

A copy is ``copying`` or ``removing`` while a command to ingestion is unanswered.
"""

from dataclasses import dataclass
from typing import Literal

from libs.contracts.identity import Identity
from services.artifacts.domain.artifacts import StoredArtifact

InFlightState = Literal["copying", "removing"]
PlatformState = Literal["none", "copied"] | InFlightState


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyState:
    """An artifact and the state of its copy.

    ``file_id`` is the ID of the copy. The ID is kept after the copy has been removed.
    """

    artifact: StoredArtifact
    state: PlatformState
    file_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundCommand:
    """An unanswered command to ingestion: a copy or a removal, depending on ``copy.state``."""

    command_id: str
    copy: CopyState
    identity: Identity
    correlation_id: str
