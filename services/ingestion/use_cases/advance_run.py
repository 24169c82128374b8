"""Advances ingestion runs: plans them, and ends them once all of their items are finished."""

from dataclasses import dataclass
from typing import Final

import structlog

from libs import tracing
from libs.contracts.errors import cause_of
from libs.persistence import is_unreachable
from services.ingestion.adapters.postgres.runs import PostgresRuns
from services.ingestion.domain.engines import Engines, IndexMissing
from services.ingestion.domain.runs import ClaimedRun, Claims, RunKey
from services.ingestion.use_cases.index_care import LostIndexes

_log = structlog.get_logger(__name__)
_FILES_AT_ONCE: Final = 500
_AGAIN_SECONDS: Final = 5.0
MOST_ATTEMPTS: Final = 5
_STEPS: Final = {"planning": "planned", "finishing": "completed"}


@dataclass(frozen=True, slots=True)
class AdvanceRun:
    runs: PostgresRuns
    engines: Engines
    lost_indexes: LostIndexes
    claims: Claims

    async def __call__(self, key: RunKey) -> None:
        """Plans or finishes the run. Only raises errors if the database is unavailable."""
        with self.claims.held() as token:
            claimed = await self.runs.claim(key, token)
            if claimed is not None:
                await self._advance(claimed)

    async def _advance(self, run: ClaimedRun) -> None:
        structlog.contextvars.bind_contextvars(correlation_id=run.run.correlation_id)
        if run.attempts > MOST_ATTEMPTS:
            await self._give_up(run, "the worker stopped each time", "no exception: the worker stopped each time")
            return
        try:
            with _span(run):
                await (self._plan(run) if run.state == "planning" else self._finish(run))
        except Exception as problem:
            if is_unreachable(problem):
                _log.warning("ingestion.run_postponed", run_id=run.run.id, problem=repr(problem))
                await self.runs.release(run, seconds=_AGAIN_SECONDS, counts=False)
                return
            _log.exception("ingestion.run_failed", run_id=run.run.id, state=run.state, attempt=run.attempts)
            if run.attempts == MOST_ATTEMPTS:
                await self._give_up(run, type(problem).__name__, cause_of(problem))
            else:
                await self.runs.release(run, seconds=_AGAIN_SECONDS * run.attempts, counts=True)

    async def _give_up(self, run: ClaimedRun, problem: str, cause: str) -> None:
        reason = f"The ingestion couldn't be {_STEPS[run.state]} in {MOST_ATTEMPTS} attempts ({problem})."
        await self.runs.fail(run.run, reason, run.token, cause=cause)

    async def _plan(self, run: ClaimedRun) -> None:
        # If a lost index were recreated under its old ID, it would be empty although its items count as ingested.
        if await self.lost_indexes.replace_if_lost(run):
            return
        engine = self.engines[run.settings.engine]
        await engine.create_index(run.run.index_id, run.settings.dimensions)
        while await self.runs.plan(run, _FILES_AT_ONCE):
            await self.runs.publish_progress(run.run)
        await self.runs.complete(run.run.id)

    async def _finish(self, run: ClaimedRun) -> None:
        try:
            await self.engines[run.settings.engine].finish(run.run.index_id)
        except IndexMissing:
            if await self.lost_indexes.replace_if_lost(run):
                return
            raise
        await self.runs.end(run)


def _span(run: ClaimedRun) -> tracing.Span:
    return tracing.span(
        "plan ingestion" if run.state == "planning" else "finish ingestion",
        tracing.Kind.CONSUMER,
        {
            "aes.ingestion_id": run.run.id,
            "aes.knowledge_base_id": run.run.knowledge_base_id,
            "aes.company_id": run.run.company_id,
        },
        correlation_id=run.run.correlation_id,
        parent=run.run.traceparent,
    )
