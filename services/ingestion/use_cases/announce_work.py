"""Tells workers what there is to do, and tells them again what was lost on the way."""

from __future__ import annotations

from typing import Final

import structlog

from services.ingestion.domain.knowledge_ports import Agenda, Runs, WorkSender

_log = structlog.get_logger(__name__)
_AT_ONCE: Final = 500


async def announce_work(agenda: Agenda, sender: WorkSender) -> bool:
    """True when there may be more."""
    due = await agenda.due(_AT_ONCE)
    if due and (unsent := await sender.send(due)):
        _log.warning("work.not_announced", items=len(unsent))
        await agenda.unannounce(unsent)
        return False
    return len(due) >= _AT_ONCE


async def reconcile_work(agenda: Agenda, runs: Runs, seconds: float) -> None:
    """Acknowledgements mean nothing: whatever is unfinished and in nobody's hands is announced again."""
    if again := await agenda.reconcile(seconds):
        _log.info("work.reconciled", items=again)
    for run_id in await agenda.done_runs():
        await runs.complete(run_id)
