"""Looks over the live turns each second: what was lost, what was left behind, what can be claimed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from libs.contracts.errors import InternalError, TimedOut
from services.runtime.domain.ports import LeaseReclaimer, SessionRemoval, StoreUnavailable
from services.runtime.domain.turns import ClaimedTurn, OrphanedTurn, OutcomeKind, TurnOutcome, TurnSnapshot
from services.runtime.use_cases.engine.turn_engine import TurnEngine
from services.runtime.use_cases.run_turn import failure

_log = structlog.get_logger("runtime.watch")


class ReconcilerMetrics(Protocol):
    def looked(self, *, running: int, queued: int) -> None: ...

    def taken_over(self, turns: int) -> None: ...


@dataclass(frozen=True, slots=True)
class ReconcilerRules:
    """Seconds, and how many attempts may be lost to dead workers. A turn's own worker ends it at its deadline;
    ``overdue_grace`` later anyone may."""

    interval: float = 1.0
    overdue_grace: float = 5.0
    attempts: int = 3


class TurnReconciler:
    def __init__(
        self,
        engine: TurnEngine,
        takeover: LeaseReclaimer,
        removal: SessionRemoval,
        metrics: ReconcilerMetrics,
        rules: ReconcilerRules,
        *,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._engine = engine
        self._takeover = takeover
        self._removal = removal
        self._metrics = metrics
        self._rules = rules
        self._jitter = jitter
        self._woken = asyncio.Event()
        self._unknown: frozenset[str] = frozenset()

    def wake(self) -> None:
        """Look at once: something was left that this or another worker may go on with."""
        self._woken.set()

    def wake_after(self, *pauses: float) -> None:
        """Look after so many seconds: for who is about to commit something, but not told when it is."""
        for pause in pauses:
            asyncio.get_running_loop().call_later(pause, self.wake)

    async def run(self) -> None:
        """Look about once a second, spread so that workers do not march in step, until cancelled."""
        while True:
            try:
                await self.look()
            except StoreUnavailable as problem:
                _log.warning("watch.delayed", problem=str(problem))
            except Exception:
                _log.exception("watch.failed")
            try:
                async with asyncio.timeout(self._rules.interval * (0.75 + 0.5 * self._jitter())):
                    await self._woken.wait()
            except TimeoutError:
                continue
            self._woken.clear()

    async def look(self) -> None:
        # Read before the database: a turn that was claimed in between must not look like one that was lost.
        before = self._engine.held
        # One that was strange at the last look may have come in since: a commit's answer can be late.
        unknown = self._unknown - self._engine.present
        seen = await self._takeover.overview(sorted(unknown), self._rules.overdue_grace)
        self._stop_lost(before, seen)
        # Seen twice in a row: a claim whose commit is just coming back is not yet known here either.
        present = before.keys() | self._engine.present
        self._unknown = frozenset(turn_id for turn_id in seen.held if turn_id not in present)
        self._metrics.looked(running=len(self._engine.held), queued=seen.queued)
        strays = [stray for stray in seen.strays if stray.overdue or not self._runs_here(stray.turn)]
        for stray in strays:
            if self._is_hopeless(stray):
                await self._alone(self._end_hopeless(stray), turn_id=stray.turn.id)
        await self._alone(self._take_over([stray for stray in strays if not self._is_hopeless(stray)]))
        await self._alone(self._claim(seen.claimable))
        for session_id in seen.deleting:
            await self._alone(self._removal.finish(session_id), session_id=session_id)

    @staticmethod
    async def _alone(work: Coroutine[Any, Any, object], **ids: str) -> None:
        """One thing that cannot be done must not keep the others from being done."""
        try:
            await work
        except StoreUnavailable:
            raise
        except Exception:
            _log.exception("watch.failed", **ids)

    def _stop_lost(self, before: dict[str, int], seen: TurnSnapshot) -> None:
        """Stop what ran when we looked, and is cancelled, deleted or another's now."""
        for turn_id, fence in before.items():
            if seen.held.get(turn_id) != (fence, "running") and self._engine.held.get(turn_id) == fence:
                self._engine.stop(turn_id)

    def _runs_here(self, turn: ClaimedTurn) -> bool:
        return self._engine.held.get(turn.id) == turn.fence

    def _is_hopeless(self, stray: OrphanedTurn) -> bool:
        return stray.cancelled or stray.overdue or stray.lost_attempts >= self._rules.attempts

    async def _end_hopeless(self, stray: OrphanedTurn) -> None:
        _log.warning(
            "turn.ended_by_watch",
            turn_id=stray.turn.id,
            correlation_id=stray.turn.message_context.correlation_id,
            worker_id=stray.worker_id,
        )
        await self._engine.finish(self._ending(stray))

    async def _claim(self, sessions: tuple[str, ...]) -> None:
        free = self._engine.free_slots()
        if sessions and free:
            for turn in await self._takeover.claim(sessions, free):
                self._engine.start(turn)

    @staticmethod
    def _ending(stray: OrphanedTurn) -> TurnOutcome:
        if stray.cancelled:
            return TurnOutcome(stray.turn, OutcomeKind.RELEASED)
        if stray.overdue:
            return failure(stray.turn, TimedOut("the turn did not end before its deadline"))
        return failure(stray.turn, InternalError(f"{stray.lost_attempts} workers died while they ran this turn"))

    async def _take_over(self, strays: list[OrphanedTurn]) -> None:
        # What does not fit here is left to another worker's look, or to the next one.
        free = self._engine.free_slots()
        if not strays or not free:
            return
        taken = await self._takeover.take_over(strays[:free], self._rules.attempts)
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
