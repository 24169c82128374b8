"""Builds the artifacts service from its parts."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog

from libs.eventing import Transaction
from libs.objects import ObjectStore, StoreUnavailable, open_store
from libs.retry import RetryPolicy
from libs.service_defaults import API, Service
from services.artifacts.adapters.artifact_reader import PostgresArtifactReader
from services.artifacts.adapters.artifact_writer import PostgresArtifactWriter
from services.artifacts.adapters.documents import IndexedDocuments
from services.artifacts.adapters.leftovers import PostgresLeftovers
from services.artifacts.adapters.platform import PostgresPlatformWriter
from services.artifacts.adapters.sessions import PostgresSessions, RuntimeSessions
from services.artifacts.adapters.table_jobs import PostgresTableJobs
from services.artifacts.adapters.tables.reader import TableProcesses
from services.artifacts.adapters.uploads import PostgresUploads, PostgresUploadWriter
from services.artifacts.domain.links import LinkSigner
from services.artifacts.entrypoints.commands import register_commands
from services.artifacts.entrypoints.events import OtherServices
from services.artifacts.entrypoints.http.artifacts import artifacts_router
from services.artifacts.entrypoints.http.contents import contents_router
from services.artifacts.entrypoints.upkeep import Upkeep
from services.artifacts.settings import ArtifactsSettings
from services.artifacts.use_cases.collect_leftovers import collect_leftovers, remove_deleted
from services.artifacts.use_cases.copy_to_platform import (
    CopyToPlatform,
    FinishCopy,
    FinishRemoval,
    HandleRejection,
    RemoveFromPlatform,
    ResendCommands,
)
from services.artifacts.use_cases.delete_artifacts import SessionDeletion
from services.artifacts.use_cases.find_session import SessionAccess
from services.artifacts.use_cases.follow_indexing import IndexingNews
from services.artifacts.use_cases.make_links import Links
from services.artifacts.use_cases.pack_artifacts import ArtifactPacking
from services.artifacts.use_cases.read_artifacts import ArtifactReading
from services.artifacts.use_cases.read_tables import TableReading
from services.artifacts.use_cases.upload_artifact import ArtifactUpload, Limits

MIGRATIONS: Final = Path(__file__).parent / "migrations"
_COLLECT_SECONDS: Final = 600.0
_LOOK_SECONDS: Final = 1.0
_RESEND_SECONDS: Final = 60.0
_STORE_SECONDS: Final = 2.0
_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Upkeep:
    tables: Upkeep
    commands: Upkeep
    deleted: Upkeep
    leftovers: Upkeep

    def run(self, service: Service) -> None:
        service.background("tables.read", self.tables.run)
        service.background("commands.resend", self.commands.run)
        service.background("deleted.remove", self.deleted.run)
        service.background("leftovers.collect", self.leftovers.run, role=API)


def build(settings: ArtifactsSettings) -> Service:
    """The service, ready to run."""
    service = Service("artifacts", settings, migrations=MIGRATIONS)
    store = open_store(settings.objects_url.get_secret_value())
    service.on_start(_begun(store))
    upkeep = _upkeep(service, settings, store)
    _add_http(service, settings, store, upkeep)
    _add_messages(service, upkeep)
    upkeep.run(service)
    return service


def _upkeep(service: Service, settings: ArtifactsSettings, store: ObjectStore) -> _Upkeep:
    database, outbox = service.database, service.outbox
    tables = TableReading(
        PostgresTableJobs(database),
        store,
        TableProcesses(seconds=settings.table_timeout_seconds, memory_bytes=settings.table_memory_bytes),
        outbox,
        _artifact_writer,
        at_once=settings.table_processes,
        lease_seconds=settings.lease_seconds,
    )
    leftovers = PostgresLeftovers(database)
    return _Upkeep(
        tables=Upkeep("tables", tables.read_waiting, seconds=_LOOK_SECONDS),
        commands=Upkeep("commands", ResendCommands(outbox, _platform_writer), seconds=_RESEND_SECONDS),
        deleted=Upkeep("deleted", lambda: remove_deleted(leftovers, store), seconds=_LOOK_SECONDS),
        leftovers=Upkeep("leftovers", lambda: collect_leftovers(leftovers, store), seconds=_COLLECT_SECONDS),
    )


def _add_http(service: Service, settings: ArtifactsSettings, store: ObjectStore, upkeep: _Upkeep) -> None:
    reader = PostgresArtifactReader(service.database)
    access = SessionAccess(PostgresSessions(service.database), RuntimeSessions(service.calls))
    signer = LinkSigner(*settings.signing_keys())
    # Any gateway serves a link.
    public_url = settings.public_url or settings.gateway_url.split(",")[0]
    links = Links(store, signer, _now, public_url=public_url, seconds=settings.link_seconds)
    uploading = ArtifactUpload(
        access,
        PostgresUploads(service.database),
        store,
        service.outbox,
        _upload_writer,
        links,
        Limits(max_bytes=settings.max_upload_bytes, max_pixels=settings.max_image_pixels),
        on_stored=upkeep.tables.wake,
    )
    documents = IndexedDocuments(service.calls)
    reading = ArtifactReading(reader, access, store, documents, links, signer, time.time)
    service.http.include_router(contents_router(reading))
    service.http.include_router(artifacts_router(uploading, reading, ArtifactPacking(reader, access, store)))


def _add_messages(service: Service, upkeep: _Upkeep) -> None:
    register_commands(service.commands, CopyToPlatform(_platform_writer), RemoveFromPlatform(_platform_writer))
    others = OtherServices(
        IndexingNews(_artifact_writer),
        FinishCopy(_platform_writer),
        FinishRemoval(_platform_writer),
        HandleRejection(_platform_writer),
        SessionDeletion(_artifact_writer, on_deleted=upkeep.deleted.wake),
    )
    others.follow_sessions(service.follow("sessions", linger=True))
    others.follow_ingestion(service.follow("ingestion"))


def _begun(store: ObjectStore) -> Callable[[], Awaitable[None]]:
    """A store that is away holds nothing up but what needs it: it is begun with when it is back."""
    waiting: set[asyncio.Task[None]] = set()

    async def until_begun() -> None:
        retries = RetryPolicy(first=_STORE_SECONDS, longest=_STORE_SECONDS)
        await retries.run(store.start, on=StoreUnavailable, before_sleep=log)

    def log(problem: Exception, _attempt: int) -> None:
        _log.warning("store.unreachable", problem=str(problem))

    async def begin() -> None:
        task = asyncio.create_task(until_begun())
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        await asyncio.wait({task}, timeout=_STORE_SECONDS)

    return begin


def _upload_writer(transaction: Transaction) -> PostgresUploadWriter:
    return PostgresUploadWriter(transaction.connection)


def _artifact_writer(transaction: Transaction) -> PostgresArtifactWriter:
    return PostgresArtifactWriter(transaction.connection)


def _platform_writer(transaction: Transaction) -> PostgresPlatformWriter:
    return PostgresPlatformWriter(transaction.connection)


def _now() -> datetime:
    return datetime.now(UTC)
