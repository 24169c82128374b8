"""Reconciles this worker's turns with the database once a second.

Lost turns are stopped, orphaned ones taken over, overdue ones ended, and queued ones claimed. Due waits are resolved.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Final

import structlog

from libs.contracts.errors import InternalError, StoreUnavailable, TimedOut
from services.runtime.domain.ports import LeaseReclaimer, TurnMetrics
from services.runtime.domain.turns import ClaimedTurn, OrphanedTurn, OutcomeKind, TurnOutcome, TurnSnapshot, failed
from services.runtime.use_cases.engine.turn_engine import TurnEngine

_log = structlog.get_logger("runtime.reconciler")
_SOON_SECONDS: Final = 0.05
_MEASURE_SECONDS: Final = 15.0
_OVERDUE_GRACE_SECONDS: Final = 5.0
"""Any worker may end a turn that its own worker hasn't ended this long after the deadline."""


class TurnReconciler:
    """Makes a pass every ``interval`` seconds. A turn fails after ``attempts`` lost executions."""

    def __init__(
        self,
        engine: TurnEngine,
        reclaimer: LeaseReclaimer,
        finish_deletion: Callable[[str], Awaitable[bool]],
        resolve_due: Callable[[str, str], Awaitable[None]],
        metrics: TurnMetrics,
        *,
        interval: float = 1.0,
        attempts: int = 3,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._engine = engine
        self._reclaimer = reclaimer
        self._finish_deletion = finish_deletion
        self._resolve_due = resolve_due
        self._metrics = metrics
        self._interval = interval
        self._attempts = attempts
        self._clock = clock
        self._measured: float | None = None
        self._woken = asyncio.Event()
        self._soon: asyncio.TimerHandle | None = None
        self._unknown: frozenset[str] = frozenset()

    def wake(self) -> None:
        """Starts a pass immediately."""
        self._woken.set()

    def wake_soon(self) -> None:
        """Starts a pass after a short delay. Calls during the delay have no effect."""
        if self._soon is None or self._soon.when() <= asyncio.get_running_loop().time():
            self._soon = asyncio.get_running_loop().call_later(_SOON_SECONDS, self.wake)

    def wake_after(self, *seconds: float) -> None:
        """Starts a pass after each of these delays, for a caller that can't tell when its commit will be done."""
        for pause in seconds:
            asyncio.get_running_loop().call_later(pause, self.wake)

    async def run(self) -> None:
        """Reconciles about once a second, until cancelled. Jitter keeps workers from synchronizing."""
        while True:
            try:
                await self.reconcile()
            except StoreUnavailable as problem:
                _log.warning("reconcile.delayed", problem=str(problem))
            except Exception:
                _log.exception("reconcile.failed")
            try:
                async with asyncio.timeout(self._interval * (0.6 + 0.4 * random.random())):
                    await self._woken.wait()
            except TimeoutError:
                continue
            self._woken.clear()

    async def reconcile(self) -> None:
        # Read the engine's turns before the database, so that a turn claimed in between doesn't seem lost.
        before = self._engine.held
        # A turn that was unknown in the last pass may have started since, because a commit's acknowledgement was late.
        unknown = self._unknown - self._engine.present
        snapshot = await self._reclaimer.snapshot(sorted(unknown), _OVERDUE_GRACE_SECONDS)
        self._stop_lost(before, snapshot)
        for turn_id, watches in snapshot.watches.items():
            self._engine.watch(turn_id, watches)
        # A turn only counts as orphaned if it's unknown in two passes, since its claim may not be acknowledged yet.
        present = before.keys() | self._engine.present
        self._unknown = frozenset(turn_id for turn_id in snapshot.held if turn_id not in present)
        self._metrics.observed(running=len(self._engine.held), queued=snapshot.queued)
        orphans = [orphan for orphan in snapshot.orphans if orphan.overdue or not self._runs_here(orphan.turn)]
        for orphan in orphans:
            if self._is_hopeless(orphan):
                await self._isolated(self._end(orphan), turn_id=orphan.turn.id)
        await self._isolated(self._reclaim([orphan for orphan in orphans if not self._is_hopeless(orphan)]))
        await self._isolated(self._claim(snapshot.claimable))
        for session_id, turn_id in snapshot.due:
            await self._isolated(self._resolve_due(session_id, turn_id), turn_id=turn_id)
        for session_id in snapshot.deleting:
            await self._isolated(self._finish_deletion(session_id), session_id=session_id)
        await self._isolated(self._measure())

    @staticmethod
    async def _isolated(work: Awaitable[object], **ids: str) -> None:
        """Logs the failure of one item, so that the others are still handled."""
        try:
            await work
        except StoreUnavailable:
            raise
        except Exception:
            _log.exception("reconcile.failed", **ids)

    def _stop_lost(self, before: dict[str, int], snapshot: TurnSnapshot) -> None:
        """Stops turns that ran before the snapshot but are now cancelled, deleted or held by another worker."""
        for turn_id, fence in before.items():
            if snapshot.held.get(turn_id) != (fence, "running") and self._engine.held.get(turn_id) == fence:
                self._engine.stop(turn_id)

    def _runs_here(self, turn: ClaimedTurn) -> bool:
        return self._engine.held.get(turn.id) == turn.fence

    def _is_hopeless(self, orphan: OrphanedTurn) -> bool:
        return orphan.cancelled or orphan.overdue or orphan.lost_attempts >= self._attempts

    async def _end(self, orphan: OrphanedTurn) -> None:
        turn = orphan.turn
        _log.warning(
            "turn.ended_by_reconciler",
            turn_id=turn.id,
            correlation_id=turn.message_context.correlation_id,
            worker_id=orphan.worker_id,
        )
        if orphan.cancelled:
            outcome = TurnOutcome(turn, OutcomeKind.RELEASED)
        elif orphan.overdue:
            outcome = failed(turn, TimedOut("The turn didn't end before its deadline."))
        else:
            message = f"The turn's worker died, and no attempts remain (attempts: {orphan.lost_attempts})."
            outcome = failed(turn, InternalError(message, cause=f"no exception: {message}"))
        await self._engine.commit(outcome)

    async def _measure(self) -> None:
        """Counts open waits, but not in every pass, since there may be many."""
        now = self._clock()
        if self._measured is None or now >= self._measured + _MEASURE_SECONDS:
            self._measured = now
            self._metrics.open_waits(await self._reclaimer.open_waits())

    async def _reclaim(self, orphans: list[OrphanedTurn]) -> None:
        # Orphans without a slot are left to another worker or the next pass.
        waiting = [(orphan.turn.message_context.company_id, orphan) for orphan in orphans]
        if not (chosen := self._engine.slots().assign_slots(waiting)):
            return
        taken = await self._reclaimer.reclaim(chosen, self._attempts)
        for turn in taken:
            _log.info(
                "turn.taken_over",
                turn_id=turn.id,
                correlation_id=turn.message_context.correlation_id,
                attempt=turn.attempt,
                fence=turn.fence,
            )
            self._engine.start(turn)
        self._metrics.taken_over(len(taken))

    async def _claim(self, waiting: Sequence[tuple[str, str]]) -> None:
        chosen = self._engine.slots().assign_slots(waiting)
        here = set(chosen)
        self._engine.left_waiting = frozenset(company_id for company_id, session in waiting if session not in here)
        if chosen:
            for turn in await self._reclaimer.claim(chosen):
                self._engine.start(turn)
