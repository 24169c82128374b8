"""Builds the ingestion service from its parts."""

import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from libs.eventing import Transaction
from libs.objects import ObjectStore, open_store
from libs.service_defaults import API, Service
from services.ingestion.adapters.embeddings.configured import ConfiguredEmbedders
from services.ingestion.adapters.engines.pgvector.engine import PgvectorEngine
from services.ingestion.adapters.engines.weaviate.connection import Address
from services.ingestion.adapters.engines.weaviate.engine import WeaviateEngine
from services.ingestion.adapters.internal_api import HttpArtifactSource
from services.ingestion.adapters.kafka import KafkaWorkSender
from services.ingestion.adapters.parsing.pool import parsing_pool
from services.ingestion.adapters.postgres.artifact_documents import (
    PostgresArtifactJobs,
    PostgresArtifactPlaces,
    PostgresArtifactWriter,
)
from services.ingestion.adapters.postgres.collections import (
    PostgresCollectionChanges,
    PostgresCollectionPublisher,
    PostgresCollectionReader,
    PostgresCollectionWriter,
)
from services.ingestion.adapters.postgres.files import PostgresFileReader, PostgresFileWriter, PostgresSearchableFiles
from services.ingestion.adapters.postgres.garbage_collection import PostgresUnusedBlobs
from services.ingestion.adapters.postgres.indexes import PostgresIndexCatalog, PostgresIndexDeletion
from services.ingestion.adapters.postgres.knowledge_base_writer import PostgresKnowledgeBaseWriter
from services.ingestion.adapters.postgres.knowledge_bases import PostgresKnowledgeBaseReader
from services.ingestion.adapters.postgres.runs import PostgresRuns
from services.ingestion.adapters.postgres.texts import PostgresTexts
from services.ingestion.adapters.postgres.uploads import PostgresUploads, PostgresUploadWriter
from services.ingestion.adapters.postgres.work_items import PostgresWorkItems
from services.ingestion.adapters.postgres.work_queue import PostgresWorkQueue, keep_counting
from services.ingestion.domain.engines import Engine
from services.ingestion.entrypoints.artifact_messages import ArtifactMessages
from services.ingestion.entrypoints.artifact_work import work_off
from services.ingestion.entrypoints.file_commands import FileCommands
from services.ingestion.entrypoints.http.artifacts import artifact_texts_router
from services.ingestion.entrypoints.http.collections import collections_router
from services.ingestion.entrypoints.http.files import files_router
from services.ingestion.entrypoints.http.knowledge_bases import knowledge_bases_router
from services.ingestion.entrypoints.http.search import search_router
from services.ingestion.entrypoints.knowledge_commands import KnowledgeCommands
from services.ingestion.entrypoints.streams import IngestionStreams
from services.ingestion.entrypoints.upkeep import CollectionNews, collect
from services.ingestion.entrypoints.watchdog import Watchdog
from services.ingestion.entrypoints.work_upkeep import WorkUpkeep, keep_dropping, keep_inspecting
from services.ingestion.settings import IngestionSettings
from services.ingestion.use_cases.advance_run import RunAdvance
from services.ingestion.use_cases.change_collections import CollectionChange
from services.ingestion.use_cases.change_knowledge_bases import KnowledgeBaseChange
from services.ingestion.use_cases.copy_artifact import ArtifactCopying
from services.ingestion.use_cases.document_indexer import DocumentIndexer
from services.ingestion.use_cases.document_loader import DocumentLoader
from services.ingestion.use_cases.index_artifacts import ArtifactIndexing
from services.ingestion.use_cases.ingest_items import ItemIngestion
from services.ingestion.use_cases.inspect_indexes import DocumentInspection, IndexInspection
from services.ingestion.use_cases.progress_throttle import ProgressThrottle
from services.ingestion.use_cases.read_collections import CollectionReading
from services.ingestion.use_cases.read_files import FileReading
from services.ingestion.use_cases.read_knowledge_bases import KnowledgeBaseReading
from services.ingestion.use_cases.search_artifacts import ArtifactTexts
from services.ingestion.use_cases.search_knowledge_base import KnowledgeBaseSearch
from services.ingestion.use_cases.settings_resolver import SettingsResolver
from services.ingestion.use_cases.upload_files import FileUpload, Limits

MIGRATIONS = Path(__file__).parent / "migrations"


def build(settings: IngestionSettings) -> Service:
    """The service, ready to run: files, collections and knowledge bases."""
    service = Service("ingestion", settings, migrations=MIGRATIONS)
    store = open_store(settings.objects_url.get_secret_value())
    service.on_start(store.start)
    _add_files(service, settings, store)
    _add_knowledge(service, settings, store)
    return service


def build_streams(settings: IngestionSettings) -> Service:
    """A process that works off ingestions, next to the service itself."""
    service = Service("ingestion", settings.model_copy(update={"port": settings.streams_port}), migrations=MIGRATIONS)
    store = open_store(settings.objects_url.get_secret_value())
    service.on_start(store.start)
    work = _ingestion_work(service, settings, store)
    streams = IngestionStreams(
        kafka=settings.kafka(),
        prefix=settings.topic_prefix,
        items=work.items.process,
        run=work.runs.process,
        batch=settings.streams_batch,
        batches=settings.streams_batches,
    )
    _run_streams(service, settings, streams, work)
    return service


def _add_files(service: Service, settings: IngestionSettings, store: ObjectStore) -> None:
    database, outbox = service.database, service.outbox
    collections = PostgresCollectionReader(database)
    reading = FileReading(PostgresFileReader(database), collections, store)
    limits = Limits(max_bytes=settings.max_upload_bytes, max_files=settings.max_files_per_upload)
    uploading = FileUpload(PostgresUploads(database), store, outbox, _upload_writer, limits)
    FileCommands(CollectionChange(_now), _file_writer, _collection_writer).register(service.commands)
    service.http.include_router(files_router(uploading, reading))
    service.http.include_router(collections_router(CollectionReading(collections), reading))
    news = CollectionNews(PostgresCollectionChanges(database), outbox, _collection_publisher)
    service.background("collections.tell", news.run, role=API)
    unused_blobs = PostgresUnusedBlobs(database)
    service.background("leftovers.collect", lambda: collect(unused_blobs, store), role=API)


def _add_knowledge(service: Service, settings: IngestionSettings, store: ObjectStore) -> None:
    database = service.database
    search = _search_parts(service, settings)
    reader = PostgresKnowledgeBaseReader(database)
    resolution = SettingsResolver(search.embedders, search.engines, settings.processing_engine)
    KnowledgeCommands(KnowledgeBaseChange(reader, resolution, _now), _knowledge_writer).register(service.commands)
    service.http.include_router(knowledge_bases_router(KnowledgeBaseReading(reader)))
    searching = KnowledgeBaseSearch(reader, PostgresSearchableFiles(database), search.engines, search.embedders)
    service.http.include_router(search_router(searching))
    service.on_stop(search.close)
    _add_artifacts(service, store, search, resolution)
    service.background("backlog.count", lambda: keep_counting(database))
    index_deletion = PostgresIndexDeletion(database, service.outbox)
    service.background("indexes.drop", lambda: keep_dropping(index_deletion, search.engines))
    indexes = _inspection(service, search)
    documents = DocumentInspection(PostgresArtifactJobs(database, service.outbox), search.engines)
    service.background("indexes.inspect", lambda: keep_inspecting(indexes, documents, settings.reconcile_seconds))


def _add_artifacts(service: Service, store: ObjectStore, search: "_SearchParts", resolution: SettingsResolver) -> None:
    copying = ArtifactCopying(PostgresUploads(service.database), store, HttpArtifactSource(service.calls))
    messages = ArtifactMessages(copying, _upload_writer, _artifact_writer)
    messages.register(service.commands, service.follow("artifacts"))
    places = PostgresArtifactPlaces(service.database)
    texts = ArtifactTexts(places, store, search.embedders, search.engines, resolution)
    service.http.include_router(artifact_texts_router(texts))


@dataclass(frozen=True, slots=True)
class _SearchParts:
    engines: dict[str, Engine]
    embedders: ConfiguredEmbedders

    async def close(self) -> None:
        await self.embedders.close()
        for engine in self.engines.values():
            await engine.close()


def _search_parts(service: Service, settings: IngestionSettings) -> _SearchParts:
    engines: dict[str, Engine] = {"pgvector": PgvectorEngine(service.database)}
    if settings.weaviate_url:
        engines["weaviate"] = WeaviateEngine(
            Address(
                settings.weaviate_url,
                settings.weaviate_grpc_port,
                settings.weaviate_api_key.get_secret_value() or None,
            )
        )
    return _SearchParts(engines, ConfiguredEmbedders(os.environ))


@dataclass(frozen=True, slots=True)
class _IngestionWork:
    items: ItemIngestion
    runs: RunAdvance
    artifacts: ArtifactIndexing
    upkeep: WorkUpkeep
    work_queue: PostgresWorkQueue
    closing: tuple[Callable[[], Awaitable[None]], ...]


def _ingestion_work(service: Service, settings: IngestionSettings, store: ObjectStore) -> _IngestionWork:
    database, outbox = service.database, service.outbox
    search = _search_parts(service, settings)
    items = PostgresWorkItems(database, outbox, lease_seconds=settings.lease_seconds)
    runs = PostgresRuns(
        database, outbox, lease_seconds=settings.lease_seconds, grace_seconds=settings.index_grace_seconds
    )
    pool = parsing_pool(settings.parsing_processes, settings.parsing_timeout_seconds, settings.parsing_memory_bytes)
    loading = DocumentLoader(PostgresTexts(database), store, pool, lease_seconds=settings.lease_seconds)
    phases = ProgressThrottle(items, time.monotonic)
    indexing = DocumentIndexer(items, phases, search.embedders, search.engines)
    ingestion = ItemIngestion(items, runs, phases, loading, indexing)
    advance = RunAdvance(runs, search.engines, _inspection(service, search))
    artifacts = ArtifactIndexing(
        PostgresArtifactJobs(database, outbox),
        HttpArtifactSource(service.calls),
        pool,
        store,
        search.embedders,
        search.engines,
        SettingsResolver(search.embedders, search.engines, settings.processing_engine),
        at_once=settings.parsing_processes,
    )
    work_queue = PostgresWorkQueue(database)
    sender = KafkaWorkSender(service.producer, source=service.source)
    claims = lambda: [*ingestion.claims, *advance.claims]  # noqa: E731
    upkeep = WorkUpkeep(work_queue, sender, runs, items, loading, claims)
    return _IngestionWork(ingestion, advance, artifacts, upkeep, work_queue, (pool.close, search.close))


def _inspection(service: Service, search: _SearchParts) -> IndexInspection:
    register = PostgresIndexCatalog(service.database)
    return IndexInspection(register, search.engines, service.outbox, _knowledge_writer, time.monotonic)


def _run_streams(
    service: Service, settings: IngestionSettings, streams: IngestionStreams, work: _IngestionWork
) -> None:
    upkeep = work.upkeep
    watchdog = Watchdog(work.work_queue.stuck, limit_seconds=settings.watchdog_seconds)
    tasks = {
        "streams": streams.serve,
        "streams.measure": streams.measure,
        "work.announce": upkeep.announce,
        "work.reconcile": lambda: upkeep.reconcile(settings.reconcile_seconds),
        "artifacts.index": lambda: work_off(work.artifacts),
        "work.keep": lambda: upkeep.keep(settings.lease_seconds / 4),
        "watchdog": watchdog.run,
    }
    if settings.parse_ahead:
        tasks["texts.parse"] = upkeep.parse_texts
    for name, run in tasks.items():
        service.background(name, run, role="streams")
    for hook in (streams.stop, *work.closing):
        service.on_stop(hook)

    async def joined() -> bool:
        return streams.joined

    service.ready_check("streams", joined)


def _upload_writer(transaction: Transaction) -> PostgresUploadWriter:
    return PostgresUploadWriter(transaction.connection)


def _file_writer(transaction: Transaction) -> PostgresFileWriter:
    return PostgresFileWriter(transaction.connection)


def _artifact_writer(transaction: Transaction) -> PostgresArtifactWriter:
    return PostgresArtifactWriter(transaction.connection)


def _collection_writer(transaction: Transaction) -> PostgresCollectionWriter:
    return PostgresCollectionWriter(transaction.connection)


def _collection_publisher(transaction: Transaction) -> PostgresCollectionPublisher:
    return PostgresCollectionPublisher(transaction.connection)


def _knowledge_writer(transaction: Transaction) -> PostgresKnowledgeBaseWriter:
    return PostgresKnowledgeBaseWriter(transaction)


def _now() -> datetime:
    return datetime.now(UTC)
