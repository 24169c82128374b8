"""Tells workers what there is to do, and tells them again what was lost on the way."""

from __future__ import annotations

from typing import Final

import structlog

from services.ingestion.domain.ports.knowledge_bases import Runs, WorkQueue, WorkSender

_log = structlog.get_logger(__name__)
_AT_ONCE: Final = 500


async def dispatch_work(work_queue: WorkQueue, sender: WorkSender) -> bool:
    """True when there may be more."""
    due = await work_queue.due(_AT_ONCE)
    if due and (unsent := await sender.send(due)):
        _log.warning("work.not_announced", items=len(unsent))
        await work_queue.requeue(unsent)
        return False
    return len(due) >= _AT_ONCE


async def reconcile_work(work_queue: WorkQueue, runs: Runs, seconds: float) -> None:
    """Acknowledgements mean nothing: whatever is unfinished and in nobody's hands is announced again."""
    if again := await work_queue.reconcile(seconds):
        _log.info("work.reconciled", items=again)
    for run_id in await work_queue.finished_runs():
        await runs.complete(run_id)
