"""Storage, delta and metrics ports of the use cases.

In an outage, after which it is unknown whether a call took effect, those of the database raise ``StoreUnavailable``;
every call may be repeated.
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
        """With the sessions that submissions begin."""

    @property
    def begun(self) -> Sequence[NewSession]:
        """The sessions that the batch has created, known once it is written."""

    async def write(self, decisions: Sequence[Decision]) -> list[ClaimedTurn]:
        """Writes the decisions with their events; the turns claimed for this worker, in order."""


class ImageAddresses(Protocol):
    """Rules for addresses on the web that models are given."""

    async def refusal(self, address: str, /) -> str | None:
        """The reason why no model may be given this address; None when there is none."""


class TurnAdmissions(Protocol):
    def open(self, submissions: Sequence[Submission]) -> AbstractAsyncContextManager[AdmissionBatch]:
        """One transaction under the locks of the submissions' sessions, committed when the block is left."""


class TurnOutcomes(Protocol):
    async def commit(
        self, outcomes: Sequence[TurnOutcome], *, claim_in: Collection[str]
    ) -> Sequence[CommitResult | Exception]:
        """Ends turns whose fencing token still holds, and claims the next turns of the sessions ``claim_in``.

        Raises when it has ended none; where it has ended others, an outcome's result is its exception.
        """


class LeaseReclaimer(Protocol):
    async def snapshot(self, unknown: Sequence[str], overdue_grace: float) -> TurnSnapshot:
        """``unknown`` turns are this worker's though it does not run them (the answer of a commit was lost): they
        count as orphans. ``overdue_grace``: seconds past the deadline."""

    async def open_waits(self) -> int: ...

    async def claim(self, session_ids: Sequence[str]) -> list[ClaimedTurn]:
        """Claims the lowest queued turn of idle sessions, skipping sessions that another worker has locked."""

    async def reclaim(self, orphans: Sequence[OrphanedTurn], max_lost_attempts: int) -> list[ClaimedTurn]:
        """Takes turns from dead workers, each with its restart event; those whose worker came back are skipped."""


class WorkerLease(Protocol):
    async def renew(self) -> None:
        """Holds this worker's turns for another lease time, from now on the database's clock."""

    async def release(self) -> None:
        """Lets other workers take this worker's turns at once."""


@dataclass(frozen=True, slots=True)
class SessionAgent:
    spec: AgentSpec
    config_hash: str
    agent_id: str | None = None


class ConversationStore(Protocol):
    async def agent(self, session_id: str) -> SessionAgent | None:
        """None when the session is gone."""

    async def messages(self, session_id: str, after: int, through: int) -> list[tuple[int, Message]]:
        """Messages of the turns at positions above ``after`` up to ``through``, in order, with their turn's
        position. Failed turns are left out: a message that the provider refuses must not spoil the next turn."""

    async def steps(self, turn_id: str) -> list[Step]: ...

    async def allowed_calls(self, turn_id: str) -> dict[str, str]:
        """The hashes of the calls that a person has approved, by call id."""


class SessionLineage(Protocol):
    async def lineage(self, session_id: str) -> Sequence[str]:
        """The session that it was forked from, the one that that was forked from, and so on: 20 at most."""


class SessionReads(Protocol):
    """Reads for callers. What the caller may not see is None, and left out of lists."""

    async def sessions(self, caller: Identity, *, limit: int, offset: int, cursor: str | None = None) -> SessionPage:
        """The caller's sessions, or the company's with a scope for those; newest first."""

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
        """Oldest first, a reply right after its question; all of them, or those of one turn."""

    async def turn(self, session_id: str | None, turn_id: str, caller: Identity) -> Turn | None:
        """In that session, or in whichever session it is."""

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
        """Turns with the agent in listed sessions; those that changed last come first."""

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
        """The open actions of the sessions that the caller may see, longest waiting first."""

    async def knows_command(self, command_id: str, company_id: str) -> bool:
        """Whether the company's command has a turn, or was refused one."""


class WatchedTurns(Protocol):
    """Turns for readers of their streams; None for what the caller may not see."""

    async def watch(
        self, session_id: str, turn_id: str, caller: Identity, *, after_step: int
    ) -> tuple[WatchedTurn, int | None] | None:
        """Counts one more request for the turn's text; the second result is their number, None for an ended turn.

        ``after_step``: only the texts of later steps are returned.
        """

    async def end(self, session_id: str, turn_id: str, caller: Identity) -> TurnEnd | None: ...

    async def events(self, turn_id: str, company_id: str, *, after: int) -> Sequence[Received]:
        """The recorded events of a turn with a sequence above ``after``, in order."""


class DeltaSink(Protocol):
    def send(self, turn: ClaimedTurn, event: Event, follows: int) -> None:
        """Sends in order, without waiting and without a guarantee of delivery.

        ``follows``: the sequence of the turn's event that the text comes after.
        """


class TurnMetrics(Protocol):
    def ended(self, outcome: TurnOutcome, *, applied: bool, seconds: float) -> None: ...

    def observed(self, *, running: int, queued: int) -> None: ...

    def open_waits(self, number: int) -> None: ...

    def taken_over(self, turns: int) -> None: ...
