"""Sends due work to the workers, and resends lost work."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from services.ingestion.adapters.kafka import KafkaWorkSender
from services.ingestion.adapters.postgres.runs import PostgresRuns
from services.ingestion.adapters.postgres.work_queue import PostgresWorkQueue
from services.ingestion.domain.runs import Due

_log: Final = structlog.get_logger(__name__)
BATCH: Final = 500


class DispatchWork:
    def __init__(self, queue: PostgresWorkQueue, sender: KafkaWorkSender) -> None:
        self._queue = queue
        self._sender = sender
        self._unsent: Sequence[Due] = ()

    async def __call__(self) -> int:
        """Sends due runs and items, up to ``BATCH`` of each. Returns their number, or 0 if some couldn't be sent."""
        await self._requeue()
        due = await self._queue.take_due(BATCH)
        if due:
            self._unsent = await self._sender.send(due)
        if self._unsent:
            _log.warning("work.not_sent", items=len(self._unsent))
            await self._requeue()
            return 0
        return len(due)

    async def _requeue(self) -> None:
        """Marks unsent work as due again. If this fails, the next call retries."""
        if self._unsent:
            await self._queue.requeue(self._unsent)
            self._unsent = ()


@dataclass(frozen=True, slots=True)
class ReconcileWork:
    """Requeues unfinished work without a lease, and completes runs whose items are all finished."""

    queue: PostgresWorkQueue
    runs: PostgresRuns
    seconds: float

    async def __call__(self) -> None:
        if count := await self.queue.reconcile(self.seconds):
            _log.info("work.reconciled", items=count)
        for run_id in await self.queue.finished_runs():
            await self.runs.complete(run_id)
