"""Builds the ingestion service from its parts."""

from datetime import UTC, datetime
from pathlib import Path

from libs.eventing import Transaction
from libs.objects import ObjectStore, open_store
from libs.service_defaults import API, Service
from services.ingestion.adapters.collection_reader import PostgresCollectionReader
from services.ingestion.adapters.collection_watch import PostgresCollectionTeller, PostgresCollectionWatch
from services.ingestion.adapters.collection_writer import PostgresCollectionWriter
from services.ingestion.adapters.file_reader import PostgresFileReader
from services.ingestion.adapters.file_writer import PostgresFileWriter
from services.ingestion.adapters.leftovers import PostgresLeftovers
from services.ingestion.adapters.uploads import PostgresUploads, PostgresUploadWriter
from services.ingestion.entrypoints.file_commands import FileCommands
from services.ingestion.entrypoints.http.collections import collections_router
from services.ingestion.entrypoints.http.files import files_router
from services.ingestion.entrypoints.upkeep import CollectionNews, collect
from services.ingestion.settings import IngestionSettings
from services.ingestion.use_cases.change_collections import CollectionChange
from services.ingestion.use_cases.read_collections import CollectionReading
from services.ingestion.use_cases.read_files import FileReading
from services.ingestion.use_cases.upload_files import FileUpload, Limits

MIGRATIONS = Path(__file__).parent / "migrations"


def build(settings: IngestionSettings) -> Service:
    """The service, ready to run: files, collections and knowledge bases."""
    service = Service("ingestion", settings, migrations=MIGRATIONS)
    store = open_store(settings.objects_url.get_secret_value())
    service.on_start(store.start)
    _add_files(service, settings, store)
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
    news = CollectionNews(PostgresCollectionWatch(database), outbox, _collection_teller)
    service.background("collections.tell", news.run, role=API)
    leftovers = PostgresLeftovers(database)
    service.background("leftovers.collect", lambda: collect(leftovers, store), role=API)


def _upload_writer(transaction: Transaction) -> PostgresUploadWriter:
    return PostgresUploadWriter(transaction.connection)


def _file_writer(transaction: Transaction) -> PostgresFileWriter:
    return PostgresFileWriter(transaction.connection)


def _collection_writer(transaction: Transaction) -> PostgresCollectionWriter:
    return PostgresCollectionWriter(transaction.connection)


def _collection_teller(transaction: Transaction) -> PostgresCollectionTeller:
    return PostgresCollectionTeller(transaction.connection)


def _now() -> datetime:
    return datetime.now(UTC)
