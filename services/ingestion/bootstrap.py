"""Wires the parts of the ingestion service together."""

import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from libs.blobs import Blobs, CollectBlobs
from libs.eventing import EntityTable
from libs.objects import ObjectStore, open_store
from libs.quotas import CompanyAmounts
from libs.service_defaults import API, Service
from libs.service_defaults.repeating import repeat, repeat_while_busy
from services.ingestion.adapters.embeddings.configured import ConfiguredEmbedders
from services.ingestion.adapters.engines.pgvector.engine import PgvectorEngine
from services.ingestion.adapters.internal_api import HttpArtifactSource
from services.ingestion.adapters.kafka import KafkaWorkSender
from services.ingestion.adapters.parsing.pool import ParsingPool
from services.ingestion.adapters.postgres.artifact_documents import PostgresArtifactJobs, PostgresArtifactLocator
from services.ingestion.adapters.postgres.collections import PostgresCollectionReader
from services.ingestion.adapters.postgres.expiry import EXPIRIES
from services.ingestion.adapters.postgres.files import FILE_BYTES, FILES, PostgresFileReader, PostgresSearchableFiles
from services.ingestion.adapters.postgres.holders import PostgresHolders
from services.ingestion.adapters.postgres.indexes import PostgresIndexCatalog, PostgresIndexDeletion
from services.ingestion.adapters.postgres.knowledge_bases import PostgresKnowledgeBaseReader
from services.ingestion.adapters.postgres.runs import PostgresRuns
from services.ingestion.adapters.postgres.texts import PostgresTexts
from services.ingestion.adapters.postgres.work_items import PostgresWorkItems
from services.ingestion.adapters.postgres.work_queue import PostgresWorkQueue, count_backlog
from services.ingestion.domain.engines import Engine
from services.ingestion.domain.runs import Claims
from services.ingestion.entrypoints.events import artifact_events
from services.ingestion.entrypoints.resources.artifact_texts import serve_artifact_texts
from services.ingestion.entrypoints.resources.collections import serve_collections
from services.ingestion.entrypoints.resources.files import serve_files
from services.ingestion.entrypoints.resources.knowledge_bases import serve_knowledge_bases
from services.ingestion.entrypoints.streams import GROUP, IngestionStreams
from services.ingestion.entrypoints.watchdog import Watchdog
from services.ingestion.settings import IngestionSettings
from services.ingestion.use_cases.advance_run import AdvanceRun
from services.ingestion.use_cases.copy_artifacts import CopyArtifacts
from services.ingestion.use_cases.dispatch_work import BATCH as DISPATCHED_AT_ONCE
from services.ingestion.use_cases.dispatch_work import DispatchWork, ReconcileWork
from services.ingestion.use_cases.document_indexer import DocumentIndexer, ProgressThrottle
from services.ingestion.use_cases.document_loader import DocumentLoader, ParseAhead
from services.ingestion.use_cases.index_artifacts import IndexArtifacts, RemoveDeletedArtifacts
from services.ingestion.use_cases.index_care import DropIndexes, InspectArtifactIndexes, InspectIndexes, LostIndexes
from services.ingestion.use_cases.ingest_items import IngestItems
from services.ingestion.use_cases.knowledge_bases import KnowledgeBases
from services.ingestion.use_cases.publish_collection_changes import PublishCollectionChanges
from services.ingestion.use_cases.read_text import ReadArtifactText, ReadFileText
from services.ingestion.use_cases.search import SearchArtifacts, SearchKnowledgeBase
from services.ingestion.use_cases.settings_resolver import SettingsResolver
from services.ingestion.use_cases.upload_files import UploadFiles

MIGRATIONS = Path(__file__).parent / "migrations"
ENTITIES: Final = (
    EntityTable("files"),
    EntityTable("collections"),
    EntityTable("knowledge_bases"),
    EntityTable("artifact_documents", id="artifact_id"),
)
"""The tables of the entities that the service's events are about."""
_COLLECTION_CHANGES_SECONDS: Final = 1.0
_COLLECT_SECONDS: Final = 600.0
_UNUSED_HOURS: Final = 24.0
_BACKLOG_SECONDS: Final = 10.0
_DROP_SECONDS: Final = 2.0
_DISPATCH_SECONDS: Final = 0.2
_ARTIFACTS_SECONDS: Final = 0.5
# The longest pause between polls when there's no work.
_REST_SECONDS: Final = 1.0
_PARSE_AHEAD_SECONDS: Final = 1.0


def build(settings: IngestionSettings) -> Service:
    """Builds the API and command worker for files, collections and knowledge bases."""
    service = Service("ingestion", settings, migrations=MIGRATIONS)
    service.expire(*EXPIRIES, entities=ENTITIES)
    store = open_store(settings.objects_url.get_secret_value())
    service.on_start(store.start)
    amounts = CompanyAmounts(service.database, settings.limits_of_companies(), [FILES, FILE_BYTES])
    service.count_amounts(amounts)
    search = _Search.of(service, settings)
    service.on_stop(search.close)
    serve_resources(service, settings, store, search, amounts)
    artifact_events(service.follow("artifacts"))
    _keep_files(service, store)
    _keep_indexes(service, settings, search)
    return service


def build_streams(settings: IngestionSettings) -> Service:
    """Builds the worker process that runs ingestions."""
    service = Service("ingestion", settings.model_copy(update={"port": settings.streams_port}), migrations=MIGRATIONS)
    store = open_store(settings.objects_url.get_secret_value())
    service.on_start(store.start)
    search = _Search.of(service, settings)
    pool = ParsingPool(
        settings.parsing_processes,
        timeout_seconds=settings.parsing_timeout_seconds,
        file_seconds=settings.parsing_file_seconds,
        memory_bytes=settings.parsing_memory_bytes,
    )
    texts = PostgresTexts(service.database, _announced(service))
    loader = DocumentLoader(texts, store, pool, lease_seconds=settings.lease_seconds)
    _add_ingestion(service, settings, loader, search, pool)
    jobs = PostgresArtifactJobs(service.database, service.outbox, _announced(service))
    index = IndexArtifacts(
        jobs, HttpArtifactSource(service.calls), pool, store, search.embedders, search.engines, search.resolver,
        at_once=settings.parsing_processes,
    )  # fmt: skip
    remove = RemoveDeletedArtifacts(jobs, store, search.engines)
    for name, work in (("artifacts.index", index), ("artifacts.remove", remove)):
        poll = partial(repeat_while_busy, work, _ARTIFACTS_SECONDS, longest=_REST_SECONDS)
        service.background(name, poll, role="streams")
    for hook in (pool.close, search.close):
        service.on_stop(hook)
    return service


@dataclass(frozen=True, slots=True)
class _Search:
    """The search engines and embedders that this installation has."""

    engines: dict[str, Engine]
    embedders: ConfiguredEmbedders
    resolver: SettingsResolver

    @classmethod
    def of(cls, service: Service, settings: IngestionSettings) -> "_Search":
        engines: dict[str, Engine] = {"pgvector": PgvectorEngine(service.database)}
        if settings.weaviate_url:
            # Imported only if needed: Weaviate's client makes up a quarter of the service's imports.
            from services.ingestion.adapters.engines.weaviate.connection import Address
            from services.ingestion.adapters.engines.weaviate.engine import WeaviateEngine

            key = settings.weaviate_api_key.get_secret_value() or None
            engines["weaviate"] = WeaviateEngine(Address(settings.weaviate_url, settings.weaviate_grpc_port, key))
        embedders = ConfiguredEmbedders(os.environ, most_texts=settings.embedding_batch_size)
        return cls(engines, embedders, SettingsResolver(embedders, engines, settings.processing_engine))

    async def close(self) -> None:
        await self.embedders.close()
        for engine in self.engines.values():
            await engine.close()


def serve_resources(
    service: Service, settings: IngestionSettings, store: ObjectStore, search: _Search, amounts: CompanyAmounts
) -> None:
    commands, http, database = service.commands, service.http, service.database
    files, collections = PostgresFileReader(database), PostgresCollectionReader(database)
    blobs = Blobs(database, store)
    upload = UploadFiles(
        blobs=blobs,
        outbox=service.outbox,
        amounts=amounts,
        max_bytes=settings.max_upload_bytes,
        max_files=settings.max_files_per_upload,
    )
    copy = CopyArtifacts(blobs, HttpArtifactSource(service.calls), amounts)
    read_text = ReadFileText(files, PostgresTexts(database), store)
    serve_files(commands, http, upload, copy, files, read_text, store)
    # `available-collections` must come before `{knowledge_base_id}`, which would match it, too.
    serve_collections(commands, http, collections, files)
    bases = PostgresKnowledgeBaseReader(database)
    searching = SearchKnowledgeBase(bases, PostgresSearchableFiles(database), search.engines, search.embedders)
    serve_knowledge_bases(commands, http, KnowledgeBases(bases, search.resolver), bases, searching)
    locator = PostgresArtifactLocator(database)
    searching_artifacts = SearchArtifacts(locator, search.embedders, search.engines, search.resolver)
    serve_artifact_texts(http, ReadArtifactText(locator, store), searching_artifacts)


def _keep_files(service: Service, store: ObjectStore) -> None:
    publish = PublishCollectionChanges(service.database, service.outbox)
    service.background("collections.publish", lambda: repeat(publish, _COLLECTION_CHANGES_SECONDS), role=API)
    collect = CollectBlobs(database=service.database, store=store, owner="files", keep_hours=_UNUSED_HOURS)
    service.background("blobs.collect", lambda: repeat(collect, _COLLECT_SECONDS), role=API)


def _keep_indexes(service: Service, settings: IngestionSettings, search: _Search) -> None:
    database, outbox = service.database, service.outbox
    service.background("backlog.count", lambda: repeat(partial(count_backlog, database), _BACKLOG_SECONDS))
    drop = DropIndexes(PostgresIndexDeletion(database, outbox), search.engines)
    service.background("indexes.drop", lambda: repeat(drop, _DROP_SECONDS))
    indexes = InspectIndexes(_lost_indexes(service, search), time.monotonic)
    artifacts = InspectArtifactIndexes(PostgresArtifactJobs(database, outbox), search.engines)

    async def inspect() -> None:
        await indexes()
        await artifacts()

    service.background("indexes.inspect", lambda: repeat(inspect, settings.reconcile_seconds))


def _add_ingestion(
    service: Service, settings: IngestionSettings, loader: DocumentLoader, search: _Search, pool: ParsingPool
) -> None:
    database, outbox, holder = service.database, service.outbox, _announced(service)
    items = PostgresWorkItems(database, outbox, holder, lease_seconds=settings.lease_seconds)
    runs = PostgresRuns(
        database, outbox, holder, lease_seconds=settings.lease_seconds, grace_seconds=settings.index_grace_seconds
    )
    progress = ProgressThrottle(items, time.monotonic)
    indexer = DocumentIndexer(items, progress, search.embedders, search.engines)
    claims = Claims()
    ingest = IngestItems(items, runs, progress, loader, indexer, claims)
    advance = AdvanceRun(runs, search.engines, _lost_indexes(service, search), claims)
    queue = PostgresWorkQueue(database)
    streams = IngestionStreams(
        kafka=settings.kafka(),
        prefix=settings.topic_prefix,
        member_id=service.bus.member_id,
        items=ingest,
        run=advance,
        batches=settings.streams_batches,
        broker_answers=lambda: service.producer.healthy,
    )

    async def renew_leases() -> None:
        if claims:
            await items.renew(list(claims))
        await loader.renew()

    async def joined() -> bool:
        return streams.joined

    async def stuck(seconds: float) -> bool:
        # A long file is parsed in parts, and the queue doesn't see their progress.
        return not pool.progressed_within(seconds) and await queue.stuck(seconds)

    dispatch = DispatchWork(queue, KafkaWorkSender(service.producer, source=service.source))
    reconcile = ReconcileWork(queue, runs, settings.reconcile_seconds)
    parse_ahead = ParseAhead(queue, loader, claims, settings.parsing_processes)
    tasks: dict[str, Callable[[], Awaitable[None]]] = {
        "streams": streams.serve,
        "streams.measure": streams.measure,
        "work.dispatch": partial(
            repeat_while_busy, dispatch, _DISPATCH_SECONDS, longest=_REST_SECONDS, full=DISPATCHED_AT_ONCE
        ),
        "work.reconcile": lambda: repeat(reconcile, settings.reconcile_seconds),
        "work.renew_leases": lambda: repeat(renew_leases, settings.lease_seconds / 4),
        "watchdog": Watchdog(stuck, limit_seconds=settings.watchdog_seconds).run,
    }
    if settings.parse_ahead:
        tasks["texts.parse"] = lambda: repeat_while_busy(parse_ahead, _PARSE_AHEAD_SECONDS)
    for name, run in tasks.items():
        service.background(name, run, role="streams")
    service.reclaim(PostgresHolders(database), settings.lease_seconds / 4, role="streams")
    service.ready_check("streams", joined)
    service.reaper.watch(GROUP)
    service.on_stop(streams.stop)


def _announced(service: Service) -> Callable[[], int | None]:
    return lambda: service.presence.announced


def _lost_indexes(service: Service, search: _Search) -> LostIndexes:
    catalog = PostgresIndexCatalog(service.database)
    return LostIndexes(catalog, search.engines, service.outbox)
