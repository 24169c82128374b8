"""Storage, delta and metrics ports of the use cases.

During an outage, database ports raise ``StoreUnavailable``. The call may have taken effect, and every call may be
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
        """The state, including sessions that the submissions create."""

    @property
    def begun(self) -> Sequence[NewSession]:
        """The sessions that the batch has created, available after ``write``."""

    async def write(self, decisions: Sequence[Decision]) -> list[ClaimedTurn]:
        """Writes the decisions with their events. Returns the turns claimed for this worker, in order."""


class ImageAddresses(Protocol):
    """Rules for the web addresses that models may receive."""

    async def refusal(self, address: str, /) -> str | None:
        """Returns the reason why no model may get this address, or None."""


class TurnAdmissions(Protocol):
    def open(self, submissions: Sequence[Submission]) -> AbstractAsyncContextManager[AdmissionBatch]:
        """Opens one transaction that locks the submissions' sessions, and commits when the block ends."""


class TurnOutcomes(Protocol):
    async def commit(
        self, outcomes: Sequence[TurnOutcome], *, claim_in: Collection[str]
    ) -> Sequence[CommitResult | Exception]:
        """Ends turns with a valid fencing token, and claims the next turns of the sessions ``claim_in``.

        Raises if no turn was ended. If others were, a failed outcome's result is its exception.
        """


class LeaseReclaimer(Protocol):
    async def snapshot(self, unknown: Sequence[str], overdue_grace: float) -> TurnSnapshot:
        """Reads the live turns.

        ``unknown`` turns belong to this worker although it doesn't run them, because a commit's acknowledgement got
        lost. They count as orphans. ``overdue_grace``: seconds past the deadline.
        """

    async def open_waits(self) -> int: ...

    async def claim(self, session_ids: Sequence[str]) -> list[ClaimedTurn]:
        """Claims the lowest queued turn of idle sessions; skips sessions that another worker has locked."""

    async def reclaim(self, orphans: Sequence[OrphanedTurn], max_lost_attempts: int) -> list[ClaimedTurn]:
        """Takes turns over from dead workers, each with its restart event; skips turns of workers that came back."""


class WorkerLease(Protocol):
    async def renew(self) -> None:
        """Extends this worker's lease by one period, by the database's clock."""

    async def release(self) -> None:
        """Lets other workers take this worker's turns immediately."""


@dataclass(frozen=True, slots=True)
class SessionAgent:
    spec: AgentSpec
    config_hash: str
    agent_id: str | None = None


class ConversationStore(Protocol):
    async def agent(self, session_id: str) -> SessionAgent | None:
        """None if the session is gone."""

    async def messages(self, session_id: str, after: int, through: int) -> list[tuple[int, Message]]:
        """Messages of turns at positions above ``after`` up to ``through``, in order, with their turn's position.

        Skips failed turns: a message that the provider rejects must not spoil the next turn.
        """

    async def steps(self, turn_id: str) -> list[Step]: ...

    async def allowed_calls(self, turn_id: str) -> dict[str, str]:
        """The hashes of calls that a person has approved, by call id."""


class SessionLineage(Protocol):
    async def lineage(self, session_id: str) -> Sequence[str]:
        """The session's fork source, that session's source, and so on, at most 20."""


class SessionReads(Protocol):
    """Reads for callers. Returns None for hidden entities and leaves them out of lists."""

    async def sessions(self, caller: Identity, *, limit: int, offset: int, cursor: str | None = None) -> SessionPage:
        """The caller's sessions, or with the matching scope the company's; newest first."""

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
        """All messages or one turn's, oldest first; a reply directly follows its question."""

    async def turn(self, session_id: str | None, turn_id: str, caller: Identity) -> Turn | None:
        """Finds the turn in that session, or in any session for None."""

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
        """The agent's turns in listed sessions, most recently changed first."""

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
        """The open actions of sessions that the caller may see, longest waiting first."""

    async def knows_command(self, command_id: str, company_id: str) -> bool:
        """Whether the company's command has a turn, or was rejected."""


class WatchedTurns(Protocol):
    """Turns for stream readers; None for a turn that the caller may not see."""

    async def watch(
        self, session_id: str, turn_id: str, caller: Identity, *, after_step: int
    ) -> tuple[WatchedTurn, int | None] | None:
        """Counts another request for the turn's text. Returns the turn and that count, None for an ended turn.

        ``after_step``: only the texts of later steps are returned.
        """

    async def end(self, session_id: str, turn_id: str, caller: Identity) -> TurnEnd | None: ...

    async def events(self, turn_id: str, company_id: str, *, after: int) -> Sequence[Received]:
        """The recorded events of a turn with a sequence above ``after``, in order."""


class DeltaSink(Protocol):
    def send(self, turn: ClaimedTurn, event: Event, follows: int) -> None:
        """Sends in order, without waiting and without guaranteed delivery.

        ``follows``: the sequence of the turn's event that precedes the text.
        """


class TurnMetrics(Protocol):
    def ended(self, outcome: TurnOutcome, *, applied: bool, seconds: float) -> None: ...

    def observed(self, *, running: int, queued: int) -> None: ...

    def open_waits(self, number: int) -> None: ...

    def taken_over(self, turns: int) -> None: ...
