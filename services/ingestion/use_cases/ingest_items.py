"""Ingests items: claims them, loads, embeds and indexes their files, and records the results."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from typing import Final

import structlog

from libs import tracing
from libs.contracts.error_catalogue import FileErrorCode
from libs.contracts.errors import cause_of
from libs.contracts.resources.knowledge_bases import DatasourceError
from libs.persistence import is_outage
from services.ingestion.adapters.postgres.runs import PostgresRuns
from services.ingestion.adapters.postgres.work_items import PostgresWorkItems
from services.ingestion.domain.embedding import EmbeddingRefused
from services.ingestion.domain.engines import IndexMissing
from services.ingestion.domain.parsing import Unparsable
from services.ingestion.domain.runs import ClaimedItem, Claims, ItemKey, RunRef, Token
from services.ingestion.use_cases.document_indexer import DocumentIndexer, ProgressThrottle
from services.ingestion.use_cases.document_loader import DocumentLoader, Loaded, NotLoaded

_log = structlog.get_logger(__name__)
_CHUNKS_AT_ONCE: Final = 1000
_BYTES_AT_ONCE: Final = 16 * 1024 * 1024
_BUSY_SECONDS: Final = 1.0
_OUTAGE_SECONDS: Final = 5.0
_TRIES: Final = 2
_MAY_PASS: Final = ("timeout", "memory")


@dataclass(frozen=True, slots=True)
class IngestItems:
    items: PostgresWorkItems
    runs: PostgresRuns
    progress: ProgressThrottle
    loader: DocumentLoader
    indexer: DocumentIndexer
    claims: Claims

    async def __call__(self, keys: Sequence[ItemKey]) -> None:
        """Ingests the items. Only raises errors if the database is unavailable."""
        with self.claims.held() as token:
            claimed = await self.items.claim(keys, token)
            runs = {item.run.id: item.run for item in claimed}
            if len(correlations := {run.correlation_id for run in runs.values()}) == 1:
                structlog.contextvars.bind_contextvars(correlation_id=correlations.pop())
            with ExitStack() as spans:
                for run in runs.values():
                    spans.enter_context(_span(run, sum(item.run.id == run.id for item in claimed)))
                await self._work_off(token, claimed)
            _log.info("ingestion.items_processed", received=len(keys), claimed=len(claimed))
            for run in runs.values():
                await self._follow_up(run)

    async def _work_off(self, token: Token, claimed: Sequence[ClaimedItem]) -> None:
        # Items without a text leave the index: their file was deleted or removed.
        leaving = [item for item in claimed if item.text is None]
        await self._by_index(token, leaving, self._remove)
        staying = [item for item in claimed if item.text is not None]
        if given_up := [item for item in staying if item.exhausted]:
            await self.items.failed([(item, _given_up(item)) for item in given_up])
        for portion in _portions([item for item in staying if not item.exhausted]):
            await self._ingest(token, portion)

    async def _follow_up(self, run: RunRef) -> None:
        await self.runs.publish_progress(run)
        if await self.runs.complete(run.id):
            _log.info("ingestion.items_done", run_id=run.id, knowledge_base_id=run.knowledge_base_id)

    async def _ingest(self, token: Token, items: Sequence[ClaimedItem]) -> None:
        await self.progress.report(token, {item.key: 0 for item in items}, "parsing")
        ready: list[Loaded] = []
        async with aclosing(self.loader.load(items)) as loading:
            async for each in loading:
                if isinstance(each, NotLoaded):
                    await self._not_loaded(token, each)
                    continue
                ready += [loaded for loaded in each if loaded.chunks]
                if empty := [loaded.item for loaded in each if not loaded.chunks]:
                    await self._not_loaded(token, NotLoaded(empty, Unparsable("empty", "The file contains no text.")))
                # Batches make embedding and writing cheap, but each must fit in memory.
                if sum(len(loaded.chunks) for loaded in ready) >= _CHUNKS_AT_ONCE:
                    await self._index(token, ready)
                    ready = []
        await self._index(token, ready)

    async def _index(self, token: Token, ready: Sequence[Loaded]) -> None:
        by_key = {loaded.item.key: loaded for loaded in ready}

        async def index(token: Token, items: Sequence[ClaimedItem]) -> None:
            await self.indexer.index(token, [by_key[item.key] for item in items])

        await self._by_index(token, [loaded.item for loaded in ready], index)

    async def _remove(self, token: Token, items: Sequence[ClaimedItem]) -> None:
        await self.indexer.remove(token, items[0].settings.engine, [item.key for item in items])

    async def _by_index(
        self,
        token: Token,
        items: Sequence[ClaimedItem],
        work: Callable[[Token, Sequence[ClaimedItem]], Awaitable[None]],
    ) -> None:
        """Calls ``work`` for the items of each index. If that fails, calls ``work`` for each item separately."""
        groups: dict[str, list[ClaimedItem]] = {}
        for item in items:
            groups.setdefault(item.key.index_id, []).append(item)
        for group in groups.values():
            try:
                await work(token, group)
            except Exception as problem:
                if len(group) == 1 or _is_outage(problem):
                    await self._went_wrong(token, group, problem, "indexing")
                    continue
                _log.warning("ingestion.one_by_one", items=len(group), problem=type(problem).__name__)
                for item in group:
                    await self._by_index(token, [item], work)

    async def _not_loaded(self, token: Token, which: NotLoaded) -> None:
        if which.problem is None:
            keys = [item.key for item in which.items]
            await self.items.release(token, keys, seconds=_BUSY_SECONDS, counts=False)
            return
        await self._went_wrong(token, which.items, which.problem, "parsing")

    async def _went_wrong(self, token: Token, items: Sequence[ClaimedItem], problem: Exception, phase: str) -> None:
        keys = [item.key for item in items]
        if isinstance(problem, Unparsable) and problem.code in _MAY_PASS and items[0].attempts < _TRIES:
            # The machine may have been busy, so the file gets a second attempt.
            _log.warning("ingestion.file_postponed", file_ids=[key.file_id for key in keys], code=problem.code)
            await self.items.release(token, keys, seconds=float(items[0].attempts), counts=True)
        elif isinstance(problem, Unparsable):
            code, message, retryable = problem.code, problem.message, problem.retryable
            errors = [_error(item, code, message, phase, retryable) for item in items]
            await self.items.failed(list(zip(items, errors, strict=True)))
        elif isinstance(problem, EmbeddingRefused):
            errors = [_error(item, "embedding_refused", str(problem), "embedding", retryable=False) for item in items]
            await self.items.failed(list(zip(items, errors, strict=True)))
        elif _is_outage(problem):
            _log.warning("ingestion.outage", items=len(items), problem=str(problem))
            await self.items.release(token, keys, seconds=_OUTAGE_SECONDS, counts=False)
        else:
            _log.exception("ingestion.item_failed", file_ids=[key.file_id for key in keys], exc_info=problem)
            await self.items.release(token, keys, seconds=float(items[0].attempts), counts=True)
            # Removal is retried without limit, but a run doesn't wait for it forever.
            for run in {item.run.id: item.run for item in items if item.text is None and item.exhausted}.values():
                reason = f"A file couldn't be removed from the index ({type(problem).__name__})."
                await self.runs.fail(run, reason, cause=cause_of(problem))


def _span(run: RunRef, items: int) -> tracing.Span:
    return tracing.span(
        "ingest items",
        tracing.Kind.CONSUMER,
        {
            "messaging.batch.message_count": items,
            "aes.ingestion_id": run.id,
            "aes.knowledge_base_id": run.knowledge_base_id,
            "aes.company_id": run.company_id,
        },
        correlation_id=run.correlation_id,
        parent=run.traceparent,
    )


def _is_outage(problem: Exception) -> bool:
    """Returns whether the problem is an outage. Outages don't count as attempts, but their total time is limited."""
    # If an index in use is missing, its engine has lost it. The index will be replaced.
    return isinstance(problem, IndexMissing) or is_outage(problem)


def _error(item: ClaimedItem, code: FileErrorCode, message: str, phase: str, retryable: bool) -> DatasourceError:
    return DatasourceError(code=code, message=message, phase=phase, attempt=item.attempts, retryable=retryable)


def _given_up(item: ClaimedItem) -> DatasourceError:
    message = "Several attempts failed because a service didn't respond or the worker stopped."
    return _error(item, "given_up", message, "indexing", retryable=True)


def _portions(items: Sequence[ClaimedItem]) -> list[list[ClaimedItem]]:
    """Splits the items, in order, into portions whose files fit in memory."""
    portions: list[list[ClaimedItem]] = []
    size = 0
    for item in items:
        if not portions or size + item.size > _BYTES_AT_ONCE:
            portions.append([])
            size = 0
        portions[-1].append(item)
        size += item.size
    return portions
