"""Finds and replaces indexes that their engine has lost, and drops indexes that are pending deletion."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

import structlog

from libs.contracts.identifiers import new_id
from libs.contracts.messages import MessageContext
from libs.eventing import Outbox
from services.ingestion.adapters.postgres.indexes import PostgresIndexCatalog, PostgresIndexDeletion
from services.ingestion.adapters.postgres.knowledge_base_writer import PostgresKnowledgeBaseWriter
from services.ingestion.domain.artifacts import IndexRef
from services.ingestion.domain.engines import Engine, Engines, EngineUnavailable, IndexMissing
from services.ingestion.domain.indexes import DocumentIndexes, KnownIndex
from services.ingestion.domain.runs import ClaimedRun, RunRef
from services.ingestion.use_cases.knowledge_bases import replace_index

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LostIndexes:
    catalog: PostgresIndexCatalog
    engines: Engines
    outbox: Outbox

    async def replace_if_lost(self, run: ClaimedRun) -> bool:
        """Replaces the run's index if the engine has lost it. Returns whether it was lost.

        Raises ``EngineUnavailable`` and ``IndexMissing``.
        """
        ref, engine = run.run, run.settings.engine
        index = KnownIndex(ref.index_id, engine, ref.knowledge_base_id, ref.company_id)
        if is_lost := await self.is_lost(index):
            await self.replace(index)
        return is_lost

    async def is_lost(self, index: KnownIndex) -> bool:
        """Returns whether the engine has lost the index or some of its chunks.

        Missing chunks only count if no item has changed meanwhile.
        """
        engine, before = self.engines[index.engine], await self.catalog.content(index.id)
        if before.chunks == 0:
            return False
        if index.id not in await engine.existing([index.id]):
            return True
        try:
            there = await engine.count(index.id)
        except EngineUnavailable as problem:
            # Counting timed out. The index exists, so ingestion continues.
            _log.warning("indexes.not_counted", index_id=index.id, problem=str(problem))
            return False
        return there < before.chunks and before == await self.catalog.content(index.id)

    async def replace(self, lost: KnownIndex) -> None:
        run_id = new_id()
        run = RunRef(run_id, lost.knowledge_base_id, lost.company_id, run_id, new_id())
        async with self.outbox.transaction() as transaction:
            queued = await replace_index(PostgresKnowledgeBaseWriter(transaction), lost.id, run)
            if queued is not None:
                context = MessageContext(lost.company_id, run.correlation_id)
                transaction.emit(queued, subject=lost.knowledge_base_id, context=context)
        if queued is not None:
            _log.warning("index.lost", index_id=lost.id, knowledge_base_id=lost.knowledge_base_id, engine=lost.engine)


_ASKED_AT_ONCE: Final = 500
_COUNTED_AT_ONCE: Final = 20
_COUNTED_AGAIN_SECONDS: Final = 3600.0


class InspectIndexes:
    """Replaces an index once two consecutive inspections have found that it's lost.

    A starting engine may not know all of its indexes yet, so a single inspection isn't enough.
    """

    def __init__(self, lost_indexes: LostIndexes, clock: Callable[[], float]) -> None:
        self._lost_indexes = lost_indexes
        self._clock = clock
        self._suspected: set[str] = set()
        self._counted: dict[str, float] = {}

    async def __call__(self) -> int:
        """Inspects the indexes. Returns how many were replaced."""
        known = {index.id: index for index in await self._lost_indexes.catalog.known()}
        indexes = [IndexRef(index.engine, index.id) for index in known.values()]
        suspected = {index.index_id for index in await missing(self._lost_indexes.engines, indexes)}
        suspected |= {index.id for index in self._to_count(known) if await self._is_short(index)}
        confirmed, self._suspected = suspected & self._suspected, suspected - self._suspected
        # The next inspection counts an incomplete index again.
        self._counted = {each: at for each, at in self._counted.items() if each in known and each not in suspected}
        for index_id in sorted(confirmed):
            await self._lost_indexes.replace(known[index_id])
        return len(confirmed)

    def _to_count(self, known: Mapping[str, KnownIndex]) -> list[KnownIndex]:
        """Returns the indexes whose chunks must be counted now, each at most once an hour.

        Chunks are counted because a restored engine may lack some of them.
        """
        now = self._clock()
        due = [
            index
            for index in known.values()
            if index.settled
            and index.engine in self._lost_indexes.engines
            and now - self._counted.get(index.id, -inf) >= _COUNTED_AGAIN_SECONDS
        ]
        chosen = sorted(due, key=lambda index: index.id not in self._suspected)[:_COUNTED_AT_ONCE]
        self._counted |= {index.id: now for index in chosen}
        return chosen

    async def _is_short(self, index: KnownIndex) -> bool:
        try:
            return await self._lost_indexes.is_lost(index)
        except (EngineUnavailable, IndexMissing) as problem:
            _log.warning("indexes.not_inspected", index_id=index.id, problem=repr(problem))
            return False


class InspectArtifactIndexes:
    """Inspects the indexes of session documents. Lost indexes are rebuilt under the same ID."""

    def __init__(self, indexes: DocumentIndexes, engines: Engines) -> None:
        self._indexes = indexes
        self._engines = engines
        self._suspected: set[IndexRef] = set()

    async def __call__(self) -> int:
        """Inspects the indexes. Returns the number of documents that must be indexed again."""
        lost = await missing(self._engines, await self._indexes.in_use())
        confirmed, self._suspected = lost & self._suspected, lost - self._suspected
        count = 0
        for index in confirmed:
            count += (documents := await self._indexes.requeue_lost(index))
            _log.warning("index.lost", index_id=index.index_id, engine=index.engine, documents=documents)
        return count


async def missing(engines: Engines, indexes: Iterable[IndexRef]) -> set[IndexRef]:
    """Returns the indexes that their engines don't have. Engines that are unknown or don't respond are skipped."""
    by_engine: dict[str, list[str]] = {}
    for index in indexes:
        by_engine.setdefault(index.engine, []).append(index.index_id)
    found: set[IndexRef] = set()
    for name, index_ids in by_engine.items():
        if name not in engines:
            continue
        try:
            there = await _existing(engines[name], index_ids)
        except EngineUnavailable as problem:
            _log.warning("indexes.not_inspected", engine=name, problem=str(problem))
            continue
        found |= {IndexRef(name, each) for each in index_ids if each not in there}
    return found


async def _existing(engine: Engine, index_ids: list[str]) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(index_ids), _ASKED_AT_ONCE):
        found |= await engine.existing(index_ids[start : start + _ASKED_AT_ONCE])
    return found


@dataclass(frozen=True, slots=True)
class DropIndexes:
    deletion: PostgresIndexDeletion
    engines: Engines

    async def __call__(self) -> None:
        """Drops the indexes that are pending deletion. If an engine fails to drop one, the next call tries again."""
        for index_id, engine in await self.deletion.droppable():
            await self.deletion.mark_for_deletion(index_id)
            if engine not in self.engines:
                _log.error("index.engine_missing", index_id=index_id, engine=engine)
                continue
            try:
                await self.engines[engine].drop_index(index_id)
            except EngineUnavailable as problem:
                _log.warning("index.not_dropped", index_id=index_id, problem=str(problem))
                continue
            except Exception:
                # One index that can't be dropped must not delay the others.
                _log.exception("index.not_dropped", index_id=index_id)
                continue
            await self.deletion.dropped(index_id)
            _log.info("index.dropped", index_id=index_id)
        await self.deletion.finalize_deletion()
