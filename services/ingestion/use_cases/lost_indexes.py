"""Recognizes indexes that their engine has lost, and has them replaced."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from libs.contracts.identifiers import new_id
from libs.contracts.messages import MessageContext
from libs.eventing import Outbox, Transaction
from services.ingestion.domain.engines import EngineUnavailable
from services.ingestion.domain.ports.indexes import IndexCatalog, KnownIndex
from services.ingestion.domain.ports.knowledge_bases import Engines, KnowledgeBaseWriter
from services.ingestion.domain.runs import ClaimedRun, RunRef
from services.ingestion.use_cases.change_knowledge_bases import replace_index

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LostIndexes:
    catalog: IndexCatalog
    engines: Engines
    outbox: Outbox
    writer: Callable[[Transaction], KnowledgeBaseWriter]

    async def replace_if_lost(self, run: ClaimedRun) -> bool:
        """Replaces the run's index if it is lost; True means that this or another run plans with a fresh one.

        Raises ``EngineUnavailable`` and ``IndexMissing``.
        """
        ref, engine = run.run, run.settings.engine
        index = KnownIndex(ref.index_id, engine, ref.knowledge_base_id, ref.company_id)
        if is_lost := await self.is_lost(index):
            await self.replace(index)
        return is_lost

    async def is_lost(self, index: KnownIndex) -> bool:
        """Whether the engine lacks the index, or has fewer chunks than were written while no item changes."""
        engine, before = self.engines[index.engine], await self.catalog.content(index.id)
        if before.chunks == 0:
            return False
        if index.id not in await engine.existing([index.id]):
            return True
        try:
            there = await engine.count(index.id)
        except EngineUnavailable as problem:
            # Counting took too long; the index exists, so ingestion goes on.
            _log.warning("indexes.not_counted", index_id=index.id, problem=str(problem))
            return False
        return there < before.chunks and before == await self.catalog.content(index.id)

    async def replace(self, lost: KnownIndex) -> None:
        run_id = new_id()
        run = RunRef(run_id, lost.knowledge_base_id, lost.company_id, run_id, new_id())
        async with self.outbox.transaction() as transaction:
            queued = await replace_index(self.writer(transaction), lost.id, run)
            if queued is not None:
                context = MessageContext(lost.company_id, run.correlation_id)
                transaction.emit(queued, subject=lost.knowledge_base_id, context=context)
        if queued is not None:
            _log.warning("index.lost", index_id=lost.id, knowledge_base_id=lost.knowledge_base_id, engine=lost.engine)
