"""Runs the turns that this worker holds, each to its committed ending."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final, Protocol

import structlog

from libs import tracing
from libs.contracts.errors import InternalError
from libs.retry import RetryPolicy
from services.runtime.domain.conversation import UserMessage
from services.runtime.domain.ports import TurnOutcomes
from services.runtime.domain.turns import ClaimedTurn, CommitResult, OutcomeKind, TurnOutcome
from services.runtime.use_cases.engine.claim_future import ClaimFuture
from services.runtime.use_cases.engine.group_commit import GroupCommit
from services.runtime.use_cases.engine.retry_until_available import STORE_RETRIES, retry_until_available
from services.runtime.use_cases.run_turn import RunTurn, failure

_log = structlog.get_logger("runtime.turns")
_HAND_BACK_SECONDS: Final = 2.0


class TurnMetrics(Protocol):
    def ended(self, ending: TurnOutcome, *, won: bool, seconds: float) -> None: ...


@dataclass(slots=True)
class _Running:
    """``stop`` says what becomes of the turn when its task is cancelled; ``committing`` that it is too late for that.

    ``claim`` is there when the turn runs ahead of it.
    """

    turn: ClaimedTurn
    question: UserMessage | None
    claim: ClaimFuture | None = None
    task: asyncio.Task[None] | None = None
    stop: OutcomeKind = OutcomeKind.RELEASED
    committing: bool = False

    async def holds(self) -> bool:
        return self.claim is None or await self.claim.succeeds()


class TurnEngine:
    """``capacity``: turns that run at once; what is in work beyond it (a session's next turn) is never refused.

    ``on_release`` is called when a cancelled execution has stopped: something may wait for that.
    """

    def __init__(
        self,
        execute: RunTurn,
        endings: TurnOutcomes,
        metrics: TurnMetrics,
        *,
        capacity: int,
        retries: RetryPolicy = STORE_RETRIES,
    ) -> None:
        self._execute = execute
        self._endings = GroupCommit[TurnOutcome, CommitResult](self._commit_batch)
        self._store = endings
        self._metrics = metrics
        self._capacity = capacity
        self._retries = retries
        self.on_release: Callable[[], None] = _nothing
        self._running: dict[str, _Running] = {}
        self._draining = False
        self._abandoned = False

    @property
    def held(self) -> dict[str, int]:
        """The fencing numbers of the turns in work here whose claim is committed."""
        return {
            turn_id: running.turn.fence
            for turn_id, running in self._running.items()
            if running.claim is None or running.claim.succeeded
        }

    @property
    def present(self) -> frozenset[str]:
        """The turns in work here, those whose claim is being committed among them."""
        return frozenset(
            turn_id for turn_id, running in self._running.items() if running.claim is None or not running.claim.failed
        )

    def free_slots(self) -> int:
        return 0 if self._draining else max(self._capacity - len(self._running), 0)

    def start(self, turn: ClaimedTurn, question: UserMessage | None = None, claim: ClaimFuture | None = None) -> None:
        """Run a turn that this worker has claimed, or is about to. Of two claims the older one is fenced off.

        After ``abandon`` nothing begins any more: what is claimed all the same is another worker's to find.
        """
        if self._abandoned:
            return
        present = self._running.get(turn.id)
        void = present is not None and present.claim is not None and present.claim.failed
        if present is not None and present.turn.fence >= turn.fence and not void:
            return
        self.stop(turn.id)
        running = _Running(turn, question, claim)
        self._running[turn.id] = running
        running.task = asyncio.create_task(self._supervise(running))

    def stop(self, turn_id: str, becomes: OutcomeKind = OutcomeKind.RELEASED) -> None:
        """Stop a turn that was cancelled or lost; one whose ending is being committed is left to its guard."""
        running = self._running.get(turn_id)
        if running is not None:
            running.stop = becomes
            # Not at once: a task that has not begun yet would never run, nor give its hold back.
            asyncio.get_running_loop().call_soon(_cancel, running)

    async def finish(self, ending: TurnOutcome) -> CommitResult:
        """Commit the ending of a turn that does not run here. Raises StoreUnavailable."""
        ended = await self._endings.submit(ending)
        if ended.following is not None:
            self.start(ended.following)
        return ended

    async def drain(self, grace: float) -> None:
        """Take nothing more, wait for what runs, hand back what has not ended within ``grace`` seconds."""
        self._draining = True
        tasks = self._tasks()
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        left = list(self._running)
        for turn_id in left:
            self.stop(turn_id, OutcomeKind.HANDED_BACK)
        if tasks := self._tasks():
            await asyncio.wait(tasks, timeout=_HAND_BACK_SECONDS)
        self.abandon()
        if left:
            _log.info("turns.handed_back", turns=len(left))

    def abandon(self) -> None:
        """Stop everything where it is and say nothing, as a crash does: the leases run out."""
        self._draining = self._abandoned = True
        for task in self._tasks():
            task.cancel()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [running.task for running in self._running.values() if running.task is not None]

    async def _supervise(self, running: _Running) -> None:
        turn = running.turn
        began = monotonic()
        # The command's id is the turn's; what is bound so far is of whoever submitted the first of a batch.
        structlog.contextvars.bind_contextvars(
            correlation_id=turn.message_context.correlation_id, turn_id=turn.id, command_id=turn.id
        )
        # From the turn's row: whoever takes it over goes on in the same trace.
        tracing.resume(turn.message_context.traceparent, turn.message_context.correlation_id)
        following: ClaimedTurn | None = None
        try:
            ending = await self._executed(running)
            running.committing = True
            if not await running.holds():
                return
            ended = await self._committed(ending)
            following = ended.following
            # What lost is not stored, and must not be remembered as part of the conversation.
            if ended.won:
                self._execute.remember(turn, running.question, ending)
            if ending.kind is OutcomeKind.RELEASED:
                self.on_release()
            self._metrics.ended(ending, won=ended.won, seconds=monotonic() - began)
        except Exception:
            # Left as it is, the turn is found again as one that this worker holds and does not run.
            _log.exception("turn.not_ended", turn_id=turn.id)
        finally:
            if self._running.get(turn.id) is running:
                del self._running[turn.id]
        if following is not None:
            self.start(following)

    async def _executed(self, running: _Running) -> TurnOutcome:
        try:
            ending = await self._execute.run(running.turn, running.question, running.holds)
        except asyncio.CancelledError:
            if self._abandoned:
                raise
            return TurnOutcome(running.turn, running.stop)
        return ending or TurnOutcome(running.turn, OutcomeKind.RELEASED)

    async def _committed(self, ending: TurnOutcome) -> CommitResult:
        """An answer that was made is not lost to an outage: it is tried until the database says who won."""
        try:
            return await self._submitted(ending)
        except Exception:
            if ending.kind is not OutcomeKind.COMPLETED:
                raise
            _log.exception("turn.reply_not_stored", turn_id=ending.turn.id)
            return await self._submitted(failure(ending.turn, InternalError("the reply could not be stored")))

    async def _submitted(self, ending: TurnOutcome) -> CommitResult:
        return await retry_until_available(
            lambda: self._endings.submit(ending), turn_id=ending.turn.id, policy=self._retries
        )

    async def _commit_batch(self, endings: Sequence[TurnOutcome]) -> list[CommitResult]:
        return await self._store.end(endings, claim_following=not self._draining)


def _nothing() -> None: ...


def _cancel(running: _Running) -> None:
    if running.task is not None and not running.committing:
        running.task.cancel()
