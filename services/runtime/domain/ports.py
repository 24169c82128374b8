"""Ports of the use cases: storage, deltas and metrics.

During an outage, database ports raise ``StoreUnavailable``. The call may still have taken effect. All calls can be
repeated.
"""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from libs.contracts.identity import Identity
from libs.contracts.messages import Event, Received
from libs.contracts.resources.actions import ActionPage
from libs.contracts.resources.messages import MessagePage
from libs.contracts.resources.sessions import Session, SessionPage
from libs.contracts.resources.turns import ActionKind, Turn, TurnPage, TurnStatus, WatchedTurn
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
    TurnEnd,
    TurnOutcome,
    TurnSnapshot,
)


class AdmissionBatch(Protocol):
    @property
    def view(self) -> AdmissionView:
        """Returns the state, including sessions that the submissions create."""

    @property
    def begun(self) -> Sequence[NewSession]:
        """Returns the sessions that the batch has created. Available after ``write``."""

    async def write(self, decisions: Sequence[Decision]) -> list[ClaimedTurn]:
        """Writes the decisions and their events. Returns the turns claimed for this worker, in order."""


class ImageAddresses(Protocol):
    """Rules for the web addresses that models may receive."""

    async def refusal(self, address: str, /) -> str | None:
        """Returns the reason why models may not receive this address, or None."""


class TurnAdmissions(Protocol):
    def open(self, submissions: Sequence[Submission]) -> AbstractAsyncContextManager[AdmissionBatch]:
        """Opens a transaction that locks the submissions' sessions. Commits it when the block ends."""


class TurnOutcomes(Protocol):
    async def commit(
        self, outcomes: Sequence[TurnOutcome], *, claim_in: Collection[str]
    ) -> Sequence[CommitResult | Exception]:
        """Ends turns whose fencing token is valid, and claims the next turns of the sessions in ``claim_in``.

        Raises if no turn was ended. Otherwise, the result of a failed outcome is its exception.
        """


class LeaseReclaimer(Protocol):
    async def snapshot(self, unknown: Sequence[str], overdue_grace: float) -> TurnSnapshot:
        """Reads the live turns.

        ``unknown`` turns belong to this worker but don't run here, because a commit's acknowledgement was lost. They
        count as orphans. ``overdue_grace``: seconds after the deadline.
        """

    async def open_waits(self) -> int: ...

    async def claim(self, session_ids: Sequence[str]) -> list[ClaimedTurn]:
        """Claims the first queued turn of each idle session. Skips sessions that another worker has locked."""

    async def reclaim(self, orphans: Sequence[OrphanedTurn], max_lost_attempts: int) -> list[ClaimedTurn]:
        """Takes turns over from dead workers and emits their restart events. Skips turns of workers that are back."""


class WorkerLease(Protocol):
    async def renew(self) -> None:
        """Extends this worker's lease by one period of the database's clock."""

    async def release(self) -> None:
        """Releases the lease, so that other workers can take over this worker's turns immediately."""


@dataclass(frozen=True, slots=True)
class SessionAgent:
    spec: AgentSpec
    config_hash: str
    agent_id: str | None = None


class ConversationStore(Protocol):
    async def agent(self, session_id: str) -> SessionAgent | None:
        """Returns the session's agent, or None if the session no longer exists."""

    async def messages(self, session_id: str, after: int, through: int) -> list[tuple[int, Message]]:
        """Returns messages of turns above position ``after`` and up to ``through``, in order, with their positions.

        Skips failed turns, so that a message that the provider rejects can't spoil the next turn.
        """

    async def steps(self, turn_id: str) -> list[Step]: ...

    async def allowed_calls(self, turn_id: str) -> dict[str, str]:
        """Returns the hashes of calls that a person has approved, by call ID."""


class SessionLineage(Protocol):
    async def lineage(self, session_id: str) -> Sequence[str]:
        """Returns the session from which this one was forked, that session's source, and so on, at most 20."""


class SessionReads(Protocol):
    """Reads for callers. Returns None for entities that the caller may not see, and omits them from lists."""

    async def sessions(self, caller: Identity, *, limit: int, offset: int, cursor: str | None = None) -> SessionPage:
        """Returns the caller's sessions, or with the matching scope the company's. Newest first."""

    async def session(self, session_id: str, caller: Identity) -> Session | None: ...

    async def messages(
        self,
        session_id: str,
        caller: Identity,
        *,
        limit: int,
        offset: int,
        turn_id: str | None = None,
        cursor: str | None = None,
    ) -> MessagePage | None:
        """Returns all messages, or those of one turn, oldest first. A reply directly follows its question."""

    async def turn(self, session_id: str | None, turn_id: str, caller: Identity) -> Turn | None:
        """Finds the turn in this session, or in any session if None."""

    async def turns(
        self,
        caller: Identity,
        *,
        agent_id: str,
        session_id: str | None,
        status: TurnStatus | None,
        changed_after: datetime | None,
        limit: int,
        cursor: str | None = None,
    ) -> TurnPage:
        """Returns the agent's turns in listed sessions, most recently changed first."""

    async def actions(
        self,
        caller: Identity,
        *,
        kind: ActionKind | None,
        session_id: str | None,
        limit: int,
        offset: int,
        cursor: str | None = None,
    ) -> ActionPage:
        """Returns the open actions in sessions that the caller may see, oldest first."""

    async def knows_command(self, command_id: str, company_id: str) -> bool:
        """Returns whether the company's command has a turn or was rejected."""


class WatchedTurns(Protocol):
    """Turns for stream readers. Methods return None for a turn that the caller may not see."""

    async def watch(
        self, session_id: str, turn_id: str, caller: Identity, *, after_step: int
    ) -> tuple[WatchedTurn, int | None] | None:
        """Counts a request for the turn's text. Returns the turn and this count, or None as count for an ended turn.

        ``after_step``: only returns the texts of later steps.
        """

    async def end(self, session_id: str, turn_id: str, caller: Identity) -> TurnEnd | None: ...

    async def events(self, turn_id: str, company_id: str, *, after: int) -> Sequence[Received]:
        """Returns the recorded events of a turn with a sequence number above ``after``, in order."""


class DeltaSink(Protocol):
    def send(self, turn: ClaimedTurn, event: Event, follows: int) -> None:
        """Sends in order, without waiting. Delivery isn't guaranteed.

        ``follows``: the sequence number of the turn's event that precedes the text.
        """


class TurnMetrics(Protocol):
    def ended(self, outcome: TurnOutcome, *, applied: bool, seconds: float) -> None: ...

    def observed(self, *, running: int, queued: int) -> None: ...

    def open_waits(self, number: int) -> None: ...

    def taken_over(self, turns: int) -> None: ...
