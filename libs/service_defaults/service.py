"""Connects the parts of a service: database, bus, HTTP API and lifecycle."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import structlog
from fastapi import FastAPI
from prometheus_client import Gauge

from libs.eventing import (
    CommandRouter,
    EntityTable,
    EventRouter,
    Expiry,
    IdentitySigner,
    KafkaBus,
    Outbox,
    Relay,
    Retention,
    RevokedKeys,
)
from libs.eventing.batches import BatchHandler
from libs.eventing.messages import PayloadReader
from libs.persistence import (
    Database,
    Holders,
    Presence,
    ReclaimWork,
    is_migrated,
    is_outage,
    migrate,
    retry_until_available,
)
from libs.quotas import CompanyAmounts
from libs.service_defaults._consumers import Consumers, DeadMemberReaper
from libs.service_defaults._health import Readiness, health_routes
from libs.service_defaults._lifecycle import API, WORKER, Lifecycle
from libs.service_defaults._supervision import supervised
from libs.service_defaults.errors import install_error_handlers
from libs.service_defaults.internal_calls import UpstreamClient
from libs.service_defaults.internal_routes import amounts_routes, bus_routes
from libs.service_defaults.observed_requests import SILENT, ObservedRequests
from libs.service_defaults.repeating import repeat_when_woken
from libs.service_defaults.settings import ServiceSettings

_CHECK_SECONDS: Final = 1.0
BEHIND: Final = "the database hasn't been migrated to this release"
__all__ = ["API", "WORKER", "Service"]
_log = structlog.get_logger("service")
_PRESENT_SECONDS: Final = 2.0
_BEHIND: Final = Gauge(
    "aes_outbox_behind_subjects", "Subjects with events that wait for earlier events to be published.", ["service"]
)
_WAITING: Final = Gauge("aes_outbox_waiting_events", "Events recorded but not yet published.", ["service"])
_OLDEST: Final = Gauge("aes_outbox_oldest_seconds", "Age of the oldest unpublished event.", ["service"])
_DATABASE_WAITING: Final = Gauge(
    "aes_database_waiting_requests",
    "Requests waiting for a database connection, or for their company's share of connections.",
    ["service"],
)


class Service:
    """A service with its own database.

    ``commands`` executes messages from ``<name>-commands``. ``outbox`` stores messages and publishes them on
    ``<name>-events``. ``http`` serves reads. The role ``api`` deletes old rows, and the role ``worker`` runs the
    consumers. HTTP and the outbox run in every role.
    """

    def __init__(
        self, name: str, settings: ServiceSettings, *, migrations: Path, plan_once: bool = False, worker: str = WORKER
    ) -> None:
        self.name = name
        self.settings = settings
        self.migrations = migrations
        self.source = f"/aes/{name}"
        self.signer = IdentitySigner(*settings.signing_keys())
        self.presence = Presence(settings.database_url.get_secret_value(), name=name)
        self.bus = KafkaBus(
            settings.kafka(),
            prefix=settings.topic_prefix,
            client_id=f"aes-{name}",
            process=self.presence.number,
        )
        self.producer = self.bus.producer()
        self.database = Database(
            settings.database_url.get_secret_value(),
            name=name,
            max_size=settings.database_pool_size,
            plan_once=plan_once,
            prepare=settings.database_prepared_statements,
        )
        self.relay = Relay(self.database, self.producer, self.signer, source=self.source)
        self.outbox = Outbox(self.database, self.relay)
        self.retention = Retention(name)
        self.revoked_keys = RevokedKeys(self.bus)
        self.commands = CommandRouter(self.database, self.outbox, self.signer, self.revoked_keys)
        self.calls = UpstreamClient(settings.addresses(), self.signer)
        self.payloads = PayloadReader(self.calls.payload)
        self.readiness = Readiness()
        self.reaper = DeadMemberReaper(self.bus, self.presence)
        self.consumers = Consumers(name, self.bus, self.producer, self.readiness, self.reaper)
        self.consumers.add("commands", self.commands, after=self.revoked_keys.wait)
        self.http = self._http_app()
        self.lifecycle = Lifecycle(
            self.http,
            settings,
            self.consumers,
            connect=self._connect,
            worker=worker,
            drain=self.relay.drain,
            # Other processes reclaim this process's work as soon as its lock is released.
            close=(self.calls.stop, self.producer.stop, self.database.close, self._leave),
        )
        self.on_start, self.on_stop = self.lifecycle.on_start, self.lifecycle.on_stop
        self.mount, self.background, self.stop = self.lifecycle.mount, self.lifecycle.background, self.lifecycle.stop
        self.stop_accepting, self.seconds_to_stop = self.lifecycle.stop_accepting, self.lifecycle.seconds_to_stop
        self.ready_check = self.readiness.add
        self._is_behind = False
        self._attending: asyncio.Task[None] | None = None
        self._waits_for_database: list[Callable[[], int]] = [lambda: self.database.waiting]
        self.background("outbox", self.relay.run, role=None)
        self.background("keys.revoked", self._follow_revocations, role=worker)
        self.background("groups.reaper", self.reaper.run, role=None)
        self.background("retention", lambda: self.retention.run(self.database), role=API)
        self.ready_check("started", self._is_up)
        self.ready_check("database", self._database_answers)
        self._measure_stores()

    def follow(self, purpose: str, *, linger: bool = False) -> EventRouter:
        """Returns a router for other services' events, with the consumer group ``<service>-<purpose>``.

        With ``linger``, events may arrive up to half a second later. Use it for busy topics with few relevant events.
        """
        router = EventRouter(self.outbox, self.payloads, consumer=purpose)
        self.consumers.add(purpose, router, linger=linger)
        return router

    def store_events(self, purpose: str, handler: BatchHandler[Any], topics: Sequence[str], *, role: str) -> None:
        """Passes events to ``handler`` in batches ordered by publication time, in processes with this role."""
        self.consumers.add_batches(purpose, handler, topics, role=role)

    def expire(self, *expiries: Expiry, entities: Sequence[EntityTable]) -> None:
        """Registers rows to delete after the configured number of days.

        ``entities`` must list all tables that contain subjects of events, so that the subjects' event numbers are kept.
        """
        for expiry in expiries:
            self.retention.add(expiry, self.settings.tombstone_days)
        self.retention.register_subject_tables(*entities)

    def count_amounts(self, amounts: CompanyAmounts) -> None:
        """Serves the amounts that companies have stored, and merges rows that record changes of the amounts."""
        self.http.include_router(amounts_routes(amounts))
        self.background("amounts.fold", amounts.run, role=API)

    def reclaim(self, holders: Holders, seconds: float, *, role: str = WORKER) -> None:
        """Requeues a process's work as soon as the process dies. Also checks every ``seconds``."""
        woken, work = asyncio.Event(), ReclaimWork(holders, self.presence.gone)
        self.presence.on_change(woken.set)
        self.background("work.reclaim", lambda: repeat_when_woken(work, woken, seconds), role=role)

    def count_waiting(self, waiting: Callable[[], int]) -> None:
        """Adds a count to the metric of requests that wait for the database."""
        self._waits_for_database.append(waiting)

    async def run(self, roles: frozenset[str] | None = None) -> None:
        """Runs the service until SIGTERM, SIGINT or ``stop``, then finishes or releases its work.

        If ``roles`` is None, all roles run in this process.
        """
        await self.lifecycle.run(roles)

    def _http_app(self) -> FastAPI:
        app = FastAPI(title=self.name, docs_url=None, redoc_url=None, openapi_url=None, telemetry=SILENT)
        app.state.signer = self.signer
        install_error_handlers(app)
        app.add_middleware(ObservedRequests, service=self.name)
        app.include_router(health_routes(self.name, self.readiness))
        app.include_router(bus_routes(self.commands, self.outbox, source=self.source))
        return app

    async def _connect(self) -> None:
        await retry_until_available(self._open_database, when=is_outage)
        await self._attend()
        await self.producer.start()

    async def _open_database(self) -> None:
        url = self.settings.database_url.get_secret_value()
        if self.settings.auto_migrate:
            await asyncio.to_thread(migrate, url, self.migrations)
        await self.database.open()
        await self.database.ping()
        await self._wait_for_schema(url)

    async def _wait_for_schema(self, url: str) -> None:
        """Waits until the database has this release's newest revision. The database may also be ahead.

        Raises ``IncompatibleSchema``, and any error that an outage causes.
        """
        while not await asyncio.to_thread(is_migrated, url, self.migrations):
            if not self._is_behind:
                _log.warning("database.behind", problem=BEHIND, remedy=f"python -m services.{self.name} migrate")
            self._is_behind = True
            await asyncio.sleep(_CHECK_SECONDS)
        if self._is_behind:
            _log.info("database.migrated")
        self._is_behind = False

    async def _attend(self) -> None:
        """Acquires this process's liveness lock."""
        self._attending = supervised("presence", self.presence.run, once=True)
        held = asyncio.create_task(self.presence.held.wait())
        await asyncio.wait({self._attending, held}, timeout=_PRESENT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        held.cancel()

    async def _leave(self) -> None:
        if self._attending is not None:
            self._attending.cancel()
            await asyncio.wait({self._attending})

    async def _follow_revocations(self) -> None:
        if self.commands.topics:
            self.ready_check("revoked keys", self._revocations_known)
            await self.revoked_keys.run()
        await self.lifecycle.stopping.wait()

    async def _revocations_known(self) -> bool:
        return self.revoked_keys.loaded

    async def _is_up(self) -> bool:
        return self.lifecycle.started and not self.lifecycle.stopping.is_set()

    async def _database_answers(self) -> bool | str:
        await self.database.ping()
        return BEHIND if self._is_behind else True

    def _measure_stores(self) -> None:
        _BEHIND.labels(self.name).set_function(lambda: len(self.relay.behind))
        _WAITING.labels(self.name).set_function(lambda: self.relay.waiting)
        _OLDEST.labels(self.name).set_function(lambda: self.relay.oldest)
        _DATABASE_WAITING.labels(self.name).set_function(lambda: sum(count() for count in self._waits_for_database))
