"""Builds the artifacts service from its parts."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from libs.blobs import Blobs, CollectBlobs
from libs.contracts.errors import StoreUnavailable
from libs.eventing import EntityTable
from libs.objects import ObjectStore, open_store
from libs.quotas import CompanyAmounts
from libs.retry import RetryPolicy
from libs.service_defaults import Service
from services.artifacts.adapters.internal_api import HttpDocuments, HttpSessions
from services.artifacts.adapters.postgres.artifacts import ARTIFACT_BYTES, PostgresArtifactReader
from services.artifacts.adapters.postgres.expiry import EXPIRIES
from services.artifacts.adapters.postgres.sessions import PostgresSessions
from services.artifacts.adapters.postgres.table_jobs import PostgresTableJobs
from services.artifacts.adapters.tables.reader import TableProcesses
from services.artifacts.domain.links import LinkSigner
from services.artifacts.entrypoints.events import follow_ingestion, follow_sessions
from services.artifacts.entrypoints.maintenance import PeriodicWork
from services.artifacts.entrypoints.resources.artifacts import serve_artifacts
from services.artifacts.entrypoints.resources.contents import serve_contents
from services.artifacts.settings import ArtifactsSettings
from services.artifacts.use_cases.access import ArtifactAccess, SessionAccess
from services.artifacts.use_cases.contents import Contents
from services.artifacts.use_cases.copy_to_platform import resend_commands
from services.artifacts.use_cases.links import Links
from services.artifacts.use_cases.read_tables import ReadTables
from services.artifacts.use_cases.upload_artifact import UploadArtifact

MIGRATIONS: Final = Path(__file__).parent / "migrations"
ENTITIES: Final = (EntityTable("artifacts"), EntityTable("sessions"))
"""The tables that contain the subjects of this service's events."""
_POLL_SECONDS: Final = 1.0
# Deletions wake this process. Polling covers slow commits, outages of the store, and leftovers of crashed processes.
_COLLECT_SECONDS: Final = 5.0
_RESEND_SECONDS: Final = 60.0
_STORE_SECONDS: Final = 2.0
_log: Final = structlog.get_logger(__name__)
Wake = Callable[[], None]


def build(settings: ArtifactsSettings) -> Service:
    """Builds the service, ready to run."""
    service = Service("artifacts", settings, migrations=MIGRATIONS)
    service.expire(*EXPIRIES, entities=ENTITIES)
    store = open_store(settings.objects_url.get_secret_value())
    service.on_start(_start_of(store))
    jobs = PostgresTableJobs(service.database, lambda: service.presence.announced)
    tables = PeriodicWork("tables", _read_tables(service, settings, store, jobs), _POLL_SECONDS)
    commands = PeriodicWork("commands", partial(resend_commands, service.outbox), _RESEND_SECONDS)
    # A session's objects are deleted together with the session.
    collector = CollectBlobs(database=service.database, store=store, owner="artifacts", keep_hours=0)
    collect = PeriodicWork("blobs", collector, _COLLECT_SECONDS)
    amounts = CompanyAmounts(service.database, settings.limits_of_companies(), [ARTIFACT_BYTES])
    service.count_amounts(amounts)
    serve_resources(service, settings, store, tables.wake, amounts)
    follow_sessions(service.follow("sessions", linger=True), collect.wake)
    follow_ingestion(service.follow("ingestion"))
    service.background("tables.read", tables.run)
    service.reclaim(jobs, settings.lease_seconds / 4)
    service.background("commands.resend", commands.run)
    service.background("blobs.collect", collect.run)
    return service


def _read_tables(
    service: Service, settings: ArtifactsSettings, store: ObjectStore, jobs: PostgresTableJobs
) -> ReadTables:
    return ReadTables(
        jobs=jobs,
        store=store,
        reader=TableProcesses(seconds=settings.table_timeout_seconds, memory_bytes=settings.table_memory_bytes),
        outbox=service.outbox,
        at_once=settings.table_processes,
        lease_seconds=settings.lease_seconds,
    )


def serve_resources(
    service: Service, settings: ArtifactsSettings, store: ObjectStore, wake_tables: Wake, amounts: CompanyAmounts
) -> None:
    artifacts = PostgresArtifactReader(service.database)
    sessions = SessionAccess(PostgresSessions(service.database), HttpSessions(service.calls))
    signer = LinkSigner(*settings.signing_keys())
    access = ArtifactAccess(artifacts, signer)
    # Any gateway can serve a link, so use the first one.
    public_url = settings.public_url or settings.gateway_url.split(",")[0]
    links = Links(store=store, signer=signer, public_url=public_url, seconds=settings.link_seconds)
    upload = UploadArtifact(
        access=sessions,
        blobs=Blobs(service.database, store),
        outbox=service.outbox,
        amounts=amounts,
        links=links,
        max_bytes=settings.max_upload_bytes,
        max_pixels=settings.max_image_pixels,
        on_stored=wake_tables,
    )
    documents = HttpDocuments(service.calls)
    contents = Contents(sessions=sessions, access=access, artifacts=artifacts, documents=documents, store=store)
    serve_contents(service.http, contents)
    serve_artifacts(service.commands, service.http, contents, links, upload)


def _start_of(store: ObjectStore) -> Callable[[], Awaitable[None]]:
    """Returns a function that starts the store. An outage blocks startup for at most two seconds."""
    waiting: set[asyncio.Task[None]] = set()

    async def until_started() -> None:
        retries = RetryPolicy(first=_STORE_SECONDS, longest=_STORE_SECONDS)
        await retries.run(store.start, on=StoreUnavailable, before_sleep=log)

    def log(problem: Exception, _attempt: int) -> None:
        _log.warning("store.unreachable", problem=str(problem))

    async def start() -> None:
        task = asyncio.create_task(until_started())
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        await asyncio.wait({task}, timeout=_STORE_SECONDS)

    return start
