"""What the use cases need of the outside; adapters implement it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from libs.contracts.messages import Event
from services.runtime.domain.admission import Decide
from services.runtime.domain.agent_ports import AgentSpec, RecordedStep
from services.runtime.domain.conversation import Message
from services.runtime.domain.turns import (
    ClaimedTurn,
    CommitResult,
    IntakeResult,
    OrphanedTurn,
    StepRecord,
    Submission,
    TurnOutcome,
    TurnSnapshot,
)

RunAhead = Callable[[Sequence[IntakeResult]], None]


class StoreUnavailable(Exception):
    """The database cannot be reached, or gave up waiting: the same call may be made again.

    Whether the last one took effect is unknown; every call of these ports may be repeated.
    """


class TurnAdmissions(Protocol):
    async def take_in(
        self, submissions: Sequence[Submission], decide: Decide, run_ahead: RunAhead
    ) -> list[IntakeResult]:
        """Take a batch in as one transaction under the sessions' locks, events included.

        ``run_ahead`` is called with what the results will be when only the commit is left to do.
        """
        ...


class TurnOutcomes(Protocol):
    async def end(self, endings: Sequence[TurnOutcome], *, claim_following: bool) -> list[CommitResult]:
        """End turns where their fencing number still holds, and claim what waits behind them."""
        ...


class TurnSteps(Protocol):
    async def record_steps(self, steps: Sequence[StepRecord]) -> list[bool]:
        """False for a step whose turn is no longer held under its fencing number; a repeat is True."""
        ...


class LeaseReclaimer(Protocol):
    async def claim(self, session_ids: Sequence[str], limit: int) -> list[ClaimedTurn]:
        """Claim the lowest queued turn of idle sessions; those that another worker is at are passed over."""
        ...

    async def take_over(self, strays: Sequence[OrphanedTurn], max_lost_attempts: int) -> list[ClaimedTurn]:
        """Take turns from workers that are gone, each with its restart event. Turns whose worker came back
        meanwhile are left alone."""
        ...

    async def overview(self, unknown: Sequence[str], overdue_grace: float) -> TurnSnapshot:
        """``unknown``: turns that are this worker's though it does not run them (a commit whose answer was
        lost): strays like those of dead workers. ``overdue_grace``: seconds past the deadline."""
        ...


class Leases(Protocol):
    async def renew(self) -> None:
        """Hold this worker's turns for another lease time, from now on the database's clock."""
        ...

    async def release(self) -> None:
        """This worker is gone; what it held may be taken at once."""
        ...


@dataclass(frozen=True, slots=True)
class SessionAgent:
    spec: AgentSpec
    config_hash: str


class ConversationStore(Protocol):
    async def agent(self, session_id: str) -> SessionAgent | None:
        """None when the session is gone."""
        ...

    async def messages(self, session_id: str, after: int, through: int) -> list[tuple[int, Message]]:
        """Messages of the turns at positions above ``after`` up to ``through``, in order, with their turn's
        position. Turns that failed are left out: one that the provider refuses must not spoil the next."""
        ...

    async def steps(self, turn_id: str) -> list[RecordedStep]: ...


class SessionRemoval(Protocol):
    async def finish(self, session_id: str) -> bool:
        """Remove a session in deletion, its history and turns, once nothing of it runs; whether it is gone."""
        ...


class DeltaSink(Protocol):
    def send(self, turn: ClaimedTurn, event: Event) -> None:
        """Send without waiting and without a promise, in order."""
        ...
