"""Ingestion without Faust and without processes: what is due is worked off where the test stands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from libs.contracts.identifiers import new_id
from libs.objects import ObjectStore
from libs.service_defaults import Service
from services.ingestion.adapters.chunking.cut import cut
from services.ingestion.adapters.postgres.indexes import PostgresIndexCatalog, PostgresIndexDeletion
from services.ingestion.adapters.postgres.runs import PostgresRuns
from services.ingestion.adapters.postgres.texts import PostgresTexts
from services.ingestion.adapters.postgres.work_items import PostgresWorkItems
from services.ingestion.adapters.postgres.work_queue import PostgresWorkQueue
from services.ingestion.domain.documents import Chunk, ParsedDocument
from services.ingestion.domain.embedding import Embedder, Vectors
from services.ingestion.domain.engines import Engine
from services.ingestion.domain.knowledge_bases import IndexSettings
from services.ingestion.domain.parsing import Unparsable
from services.ingestion.domain.runs import Claims, ItemKey, RunKey
from services.ingestion.use_cases.advance_run import AdvanceRun
from services.ingestion.use_cases.dispatch_work import ReconcileWork
from services.ingestion.use_cases.document_indexer import DocumentIndexer, ProgressThrottle
from services.ingestion.use_cases.document_loader import DocumentLoader
from services.ingestion.use_cases.index_care import DropIndexes, InspectIndexes, LostIndexes
from services.ingestion.use_cases.ingest_items import IngestItems


class PlainTextReader:
    """A Parser and Chunker of UTF-8, in this process. Counts what it parses; `broken` names files it cannot read."""

    def __init__(self) -> None:
        self.parsed: list[str] = []
        self.broken: set[str] = set()

    async def parse(self, path: Path, name: str, content_type: str, *, company_id: str = "") -> ParsedDocument:
        self.parsed.append(name)
        if name in self.broken:
            raise Unparsable("damaged", "The file is damaged.")
        return ParsedDocument(await asyncio.to_thread(path.read_text))

    async def chunk(
        self, document: ParsedDocument, index: IndexSettings, source: str, *, company_id: str = ""
    ) -> Sequence[Chunk]:
        return cut(document, index.chunking, source)

    async def parse_and_chunk(
        self, path: Path, name: str, content_type: str, index: IndexSettings, source: str, *, company_id: str = ""
    ) -> tuple[ParsedDocument, Sequence[Chunk]]:
        document = await self.parse(path, name, content_type)
        return document, cut(document, index.chunking, source)


class CountingEmbedders:
    """One model of 64 or 256 dimensions; `problems` are raised by the next calls, one each."""

    model = "wordllama:test"

    def __init__(self) -> None:
        self.embedded: list[str] = []
        self.problems: list[Exception] = []
        self.dimensions = 64

    async def embedder(self, provider: str, model: str, dimensions: int | None) -> Embedder:
        self.dimensions = dimensions or 64
        return self

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if self.problems:
            raise self.problems.pop(0)
        self.embedded += texts
        vectors = np.ones((len(texts), self.dimensions), np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class InlineWorker:
    def __init__(
        self,
        service: Service,
        store: ObjectStore,
        engine: Engine,
        *,
        lease_seconds: float = 20.0,
        grace_seconds: float = 0.0,
        reader: PlainTextReader | None = None,
        holder: int | None = None,
    ) -> None:
        def announced() -> int | None:
            return holder

        database, outbox = service.database, service.outbox
        self.reader = reader or PlainTextReader()
        self.embedders, self.engines = CountingEmbedders(), {"pgvector": engine}
        self.items = PostgresWorkItems(database, outbox, announced, lease_seconds=lease_seconds)
        self.runs = PostgresRuns(database, outbox, announced, lease_seconds=lease_seconds, grace_seconds=grace_seconds)
        self.work_queue = PostgresWorkQueue(database)
        self.index_deletion = PostgresIndexDeletion(database, outbox)
        self.texts = PostgresTexts(database, announced)
        self.loading = DocumentLoader(self.texts, store, self.reader, lease_seconds=lease_seconds)
        progress = ProgressThrottle(self.items, time.monotonic)
        indexing = DocumentIndexer(self.items, progress, self.embedders, self.engines)
        self.ingestion = IngestItems(self.items, self.runs, progress, self.loading, indexing, Claims())
        lost_indexes = LostIndexes(PostgresIndexCatalog(database), self.engines, outbox)
        self.inspect = InspectIndexes(lost_indexes, time.monotonic)
        self.advance = AdvanceRun(self.runs, self.engines, lost_indexes, Claims())

    async def step(self, limit: int = 500) -> int:
        """Work off what is due now; returns how much that was."""
        due = await self.work_queue.take_due(limit)
        for each in due:
            if isinstance(each.key, RunKey):
                await self.advance(each.key)
        if items := [each.key for each in due if isinstance(each.key, ItemKey)]:
            await self.ingestion(items)
        return len(due)

    async def drain(self) -> None:
        """Until nothing is due any more."""
        while await self.step():
            pass
        await DropIndexes(self.index_deletion, self.engines)()

    async def reconcile(self) -> None:
        await ReconcileWork(self.work_queue, self.runs, 0.0)()

    async def claim(self, index_id: str, file_ids: Sequence[str]) -> str:
        """Take items and do nothing, as a worker that is killed; returns its token."""
        token = new_id()
        claimed = await self.items.claim([ItemKey(index_id, file_id) for file_id in file_ids], token)
        assert len(claimed) == len(file_ids)
        return token
