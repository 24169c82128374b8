"""Runs this worker's turns and commits their outcomes."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

import structlog

from libs import tracing
from libs.retry import RetryPolicy
from services.runtime.domain.admission import WorkerSlots
from services.runtime.domain.conversation import AssistantMessage, UserMessage
from services.runtime.domain.ports import TurnMetrics, TurnOutcomes
from services.runtime.domain.turns import RELEASING, ClaimedTurn, CommitResult, OutcomeKind, TurnOutcome, crashed
from services.runtime.use_cases.engine.commits import (
    STORE_RETRIES,
    ClaimFuture,
    GroupCommit,
    TurnWatch,
    until_available,
)
from services.runtime.use_cases.run_turn import ConversationCache, RunTurn

_log = structlog.get_logger("runtime.turns")
_HAND_BACK_SECONDS: Final = 2.0


@dataclass(slots=True)
class _Running:
    """A turn that is running. ``stop_as`` is the outcome if the turn is cancelled before ``committing`` is set."""

    turn: ClaimedTurn
    question: UserMessage | None
    claim: ClaimFuture
    watch: TurnWatch
    task: asyncio.Task[None] | None = None
    stop_as: OutcomeKind = OutcomeKind.RELEASED
    committing: bool = False

    def cancel(self) -> None:
        if self.task is not None and not self.committing:
            self.task.cancel()


class TurnEngine:
    """Runs each turn that this worker holds in a task, and commits the outcomes in groups.

    One company may run ``capacity`` turns in parallel. A session's next turn takes over the previous one's slot, unless
    a company in ``left_waiting`` has fewer turns running here. ``on_release`` is called when a cancelled execution has
    stopped, and ``on_room`` when a slot becomes free while companies are waiting.
    """

    def __init__(
        self,
        run_turn: RunTurn,
        conversations: ConversationCache,
        outcomes: TurnOutcomes,
        metrics: TurnMetrics,
        *,
        capacity: int,
        retries: RetryPolicy = STORE_RETRIES,
    ) -> None:
        self.on_release: Callable[[], None] = lambda: None
        self.on_room: Callable[[], None] = lambda: None
        self.left_waiting: frozenset[str] = frozenset()
        self._run_turn = run_turn
        self.conversations = conversations
        self._outcomes = outcomes
        self._commits = GroupCommit[TurnOutcome, CommitResult](
            self._commit_batch, lambda outcome: outcome.turn.message_context.company_id
        )
        self._metrics = metrics
        self._capacity = capacity
        self._retries = retries
        self._running: dict[str, _Running] = {}
        self._draining = False
        self._abandoned = False

    @property
    def held(self) -> dict[str, int]:
        """The fencing tokens of the running turns whose claim is committed, by turn ID."""
        return {turn_id: running.turn.fence for turn_id, running in self._running.items() if running.claim.is_confirmed}

    @property
    def present(self) -> frozenset[str]:
        """The IDs of the running turns, including those whose claim isn't committed yet."""
        return frozenset(turn_id for turn_id, running in self._running.items() if not running.claim.has_failed)

    def slots(self) -> WorkerSlots:
        """Returns the worker's slots. While the worker drains, there are none."""
        return WorkerSlots(0 if self._draining else self._capacity, self._by_company())

    def start(self, turn: ClaimedTurn, question: UserMessage | None = None, claim: ClaimFuture | None = None) -> None:
        """Starts a claimed turn, unless the engine was abandoned. A newer claim fences off an older one."""
        if self._abandoned:
            return
        present = self._running.get(turn.id)
        if present is not None and present.turn.fence >= turn.fence and not present.claim.has_failed:
            return
        self.stop(turn.id)
        running = _Running(turn, question, claim or ClaimFuture.confirmed(), TurnWatch(wanted=turn.stream))
        self._running[turn.id] = running
        running.task = asyncio.create_task(self._supervise(running))

    def stop(self, turn_id: str, stop_as: OutcomeKind = OutcomeKind.RELEASED) -> None:
        """Stops a cancelled or lost turn, unless its outcome is already being committed."""
        running = self._running.get(turn_id)
        if running is not None:
            running.stop_as = stop_as
            # Deferred, because a task cancelled before its start never runs, and its turn would stay in ``_running``.
            asyncio.get_running_loop().call_soon(running.cancel)

    def watch(self, turn_id: str, watches: int) -> None:
        """Streams the turn's text if it runs here. ``watches`` is the number of readers' requests so far."""
        running = self._running.get(turn_id)
        if running is not None:
            running.watch.request(watches)

    async def commit(self, outcome: TurnOutcome) -> CommitResult:
        """Commits the outcome of a turn that isn't running here. The caller retries during outages."""
        result = await self._commits.submit(outcome)
        if result.next_turn is not None:
            self.start(result.next_turn)
        return result

    async def drain(self, grace: float) -> None:
        """Stops accepting turns, waits for running ones, and hands back the rest after ``grace`` seconds."""
        self._draining = True
        try:
            if tasks := self._tasks():
                await asyncio.wait(tasks, timeout=grace)
            left = list(self._running)
            for turn_id in left:
                self.stop(turn_id, OutcomeKind.HANDED_BACK)
            if tasks := self._tasks():
                await asyncio.wait(tasks, timeout=_HAND_BACK_SECONDS)
        finally:
            # Abandon turns even if the shutdown is cut short, because errors of closed clients must not end them.
            self.abandon()
        if left:
            _log.info("turns.handed_back", turns=len(left))

    def abandon(self) -> None:
        """Stops all turns without committing anything, as a crash would."""
        self._draining = self._abandoned = True
        for task in self._tasks():
            task.cancel()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [running.task for running in self._running.values() if running.task is not None]

    async def _supervise(self, running: _Running) -> None:
        turn = running.turn
        began = monotonic()
        # Replace the IDs bound so far, which belong to the batch's first command. A turn's ID is its command's ID.
        structlog.contextvars.bind_contextvars(
            correlation_id=turn.message_context.correlation_id, turn_id=turn.id, command_id=turn.id
        )
        # The trace context is from the turn's row, so that the trace continues on another worker.
        tracing.resume(turn.message_context.traceparent, turn.message_context.correlation_id)
        next_turn: ClaimedTurn | None = None
        try:
            outcome = await self._run(running)
            running.committing = True
            if await running.claim.confirm():
                next_turn = await self._end(running, outcome, began)
        except Exception:
            # The reconciler finds the turn, because this worker holds it without running it.
            _log.exception("turn.outcome_not_committed", turn_id=turn.id)
        finally:
            if self._running.get(turn.id) is running:
                del self._running[turn.id]
        if next_turn is not None:
            self.start(next_turn)
        elif self.left_waiting:
            self.on_room()

    async def _end(self, running: _Running, outcome: TurnOutcome, began: float) -> ClaimedTurn | None:
        """Commits the outcome. Returns the session's next turn if this worker has claimed it."""
        result = await self._commit(outcome)
        self._metrics.ended(outcome, applied=result.applied, seconds=monotonic() - began)
        # An outcome that wasn't applied isn't stored, so the cached conversation must not contain it.
        if result.applied:
            self._remember(running, outcome)
        elif outcome.kind not in RELEASING:
            # The turn was cancelled first and has kept this worker until now.
            outcome = TurnOutcome(running.turn, OutcomeKind.RELEASED)
            result = await self._submit(outcome)
        if outcome.kind is OutcomeKind.RELEASED:
            self.on_release()
        return result.next_turn

    async def _run(self, running: _Running) -> TurnOutcome:
        try:
            outcome = await self._run_turn(running.turn, running.question, running.claim, running.watch)
        except asyncio.CancelledError:
            if self._abandoned:
                raise
            return TurnOutcome(running.turn, running.stop_as)
        return outcome or TurnOutcome(running.turn, OutcomeKind.RELEASED)

    async def _commit(self, outcome: TurnOutcome) -> CommitResult:
        """Commits the outcome, with retries. If a reply can't be stored, the turn is retried or fails."""
        try:
            return await self._submit(outcome)
        except Exception as problem:
            if outcome.kind is not OutcomeKind.COMPLETED:
                raise
            _log.exception("turn.reply_not_stored", turn_id=outcome.turn.id)
            attempts = self._run_turn.attempts
            return await self._submit(
                crashed(outcome.turn, "The reply couldn't be stored. Try again.", problem, attempts)
            )

    async def _submit(self, outcome: TurnOutcome) -> CommitResult:
        return await until_available(lambda: self._commits.submit(outcome), self._retries)

    async def _commit_batch(self, outcomes: Sequence[TurnOutcome]) -> Sequence[CommitResult | Exception]:
        return await self._outcomes.commit(outcomes, claim_in=self._sessions_to_claim_in(outcomes))

    def _sessions_to_claim_in(self, outcomes: Sequence[TurnOutcome]) -> set[str]:
        """Returns the sessions whose next turn may start here immediately."""
        if self._draining:
            return set()
        ended = [outcome.turn for outcome in outcomes]
        if not self.left_waiting:
            return {turn.session_id for turn in ended}
        running = self._by_company()
        fewest = min(running[company_id] for company_id in self.left_waiting)
        going_on = set()
        for turn in ended:
            company_id = turn.message_context.company_id
            if running[company_id] <= fewest + 1:
                going_on.add(turn.session_id)
            else:
                running[company_id] -= 1
        return going_on

    def _by_company(self) -> Counter[str]:
        return Counter(running.turn.message_context.company_id for running in self._running.values())

    def _remember(self, running: _Running, outcome: TurnOutcome) -> None:
        if outcome.kind is OutcomeKind.FAILED:
            self.conversations.remember(running.turn, ())
        elif outcome.kind is OutcomeKind.COMPLETED and running.question is not None:
            messages = (running.question, *outcome.calls_made, AssistantMessage(outcome.text))
            self.conversations.remember(running.turn, messages)
        elif outcome.kind in (OutcomeKind.WAITING, OutcomeKind.CRASHED):
            self.conversations.forget(running.turn.session_id)
