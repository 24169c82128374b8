"""Ports of the use cases for storage, deltas and metrics. All calls are safe to repeat.

During an outage, database ports raise ``StoreUnavailable``, although the call may have taken effect.
"""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from libs.contracts.messages import Event
from services.runtime.domain.admission import AdmissionView, Decision
from services.runtime.domain.agents import AgentSpec
from services.runtime.domain.beginnings import NewSession
from services.runtime.domain.conversation import Message
from services.runtime.domain.steps import Step
from services.runtime.domain.turns import (
    ClaimedTurn,
    CommitResult,
    OrphanedTurn,
    Submission,
    TurnOutcome,
    TurnSnapshot,
)


class AdmissionBatch(Protocol):
    @property
    def view(self) -> AdmissionView:
        """The state of the database, including the sessions that the submissions create."""

    @property
    def begun(self) -> Sequence[NewSession]:
        """The sessions that the batch has created. Available after ``write``."""

    async def write(self, decisions: Sequence[Decision]) -> list[ClaimedTurn]:
        """Writes the decisions with their events. Returns the turns that this worker has claimed."""


class TurnAdmissions(Protocol):
    def open(self, submissions: Sequence[Submission]) -> AbstractAsyncContextManager[AdmissionBatch]:
        """Opens a transaction that locks the submissions' sessions, and commits it when the block ends."""


class TurnOutcomes(Protocol):
    async def commit(
        self, outcomes: Sequence[TurnOutcome], *, claim_in: Collection[str]
    ) -> Sequence[CommitResult | Exception]:
        """Ends the turns that this worker still holds, and claims the next turns of the sessions in ``claim_in``.

        Returns the result or exception of each outcome. Raises if no turn was ended.
        """


class LeaseReclaimer(Protocol):
    async def snapshot(self, unknown: Sequence[str], overdue_grace: float) -> TurnSnapshot:
        """Returns the live turns. A turn is overdue ``overdue_grace`` seconds after its deadline.

        ``unknown`` turns are claimed by this worker but don't run, because of a lost acknowledgement. They're orphaned.
        """

    async def open_waits(self) -> int: ...

    async def claim(self, session_ids: Sequence[str]) -> list[ClaimedTurn]:
        """Claims the first queued turn of each idle session. Skips sessions that another worker has locked."""

    async def reclaim(self, orphans: Sequence[OrphanedTurn], max_lost_attempts: int) -> list[ClaimedTurn]:
        """Takes over turns from dead workers and emits restart events. Skips workers that have renewed their lease."""


class WorkerLease(Protocol):
    async def renew(self) -> None:
        """Makes this worker's lease expire one lease period from now."""

    async def release(self) -> None:
        """Releases the lease, so that other workers can immediately take over this worker's turns."""


@dataclass(frozen=True, slots=True)
class SessionAgent:
    spec: AgentSpec
    config_hash: str
    agent_id: str | None = None


class ConversationStore(Protocol):
    async def agent(self, session_id: str) -> SessionAgent | None:
        """Returns the session's agent, or None if the session no longer exists."""

    async def messages(self, session_id: str, after: int, through: int) -> list[tuple[int, Message]]:
        """Returns the positions and messages of turns after position ``after`` and up to ``through``, in order.

        Failed turns are skipped, so that a message that the provider rejects can't make later turns fail.
        """

    async def steps(self, turn_id: str) -> list[Step]: ...

    async def allowed_calls(self, turn_id: str) -> dict[str, str]:
        """Returns the hashes of the tool calls that a person has approved, by call ID."""


class SessionLineage(Protocol):
    async def lineage(self, session_id: str) -> Sequence[str]:
        """Returns the IDs of the sessions from which this one was forked, nearest first. There are at most 20."""


class DeltaSink(Protocol):
    def send(self, turn: ClaimedTurn, event: Event, follows: int) -> None:
        """Sends the event after the turn's event number ``follows``, without waiting or guaranteeing delivery."""


class TurnMetrics(Protocol):
    def ended(self, outcome: TurnOutcome, *, applied: bool, seconds: float) -> None: ...

    def observed(self, *, running: int, queued: int) -> None: ...

    def open_waits(self, number: int) -> None: ...

    def taken_over(self, turns: int) -> None: ...
