"""A service: its database, its place on the bus, its HTTP API, its start and its stop."""

import asyncio
import signal
from pathlib import Path
from typing import Final

import structlog
from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig

from libs.eventing import (
    CommandRouter,
    ConsumerLoop,
    DeadLetters,
    EventRouter,
    IdentitySigner,
    KafkaBus,
    Outbox,
    OutboxSender,
    PayloadReader,
    Publisher,
    Sweeper,
)
from libs.persistence import Database, is_outage, migrate, retry_until_available
from libs.service_defaults._correlated_requests import CorrelationMiddleware
from libs.service_defaults._health import Check, Readiness, health_routes
from libs.service_defaults._http_server import HttpServer
from libs.service_defaults._metrics import watch_consumers, watch_stores
from libs.service_defaults._schema import AwaitedSchema
from libs.service_defaults._stopping import CONNECTIONS, CONSUMERS, HOOKS, OUTBOX, REQUESTS, TASKS, Stopping
from libs.service_defaults._supervision import Hook, supervised, unless_stopped
from libs.service_defaults.errors import install_error_handlers
from libs.service_defaults.internal_calls import UpstreamClient
from libs.service_defaults.internal_routes import bus_routes
from libs.service_defaults.observed_requests import ObservedRequests
from libs.service_defaults.settings import ServiceSettings

_log = structlog.get_logger("service")
API: Final = "api"
WORKER: Final = "worker"
ROLES: Final = frozenset({API, WORKER})


class Service:
    """What an owner of data is made of.

    ``commands`` carries out what comes in on ``<name>-commands``, ``outbox`` records and publishes on
    ``<name>-events``, ``follow`` reacts to other services' events, ``http`` answers reads. Role ``api`` runs HTTP
    and the outbox sweeper, ``worker`` the consumers; health and metrics are served in both.
    """

    def __init__(self, name: str, settings: ServiceSettings, *, migrations: Path, plan_once: bool = False) -> None:
        self.name = name
        self.settings = settings
        self.migrations = migrations
        self.source = f"/aes/{name}"
        self.signer = IdentitySigner(*settings.signing_keys())
        self.bus = KafkaBus(settings.kafka(), prefix=settings.topic_prefix, client_id=f"aes-{name}")
        self.producer = self.bus.producer()
        self.database = Database(
            settings.database_url.get_secret_value(),
            name=name,
            max_size=settings.database_pool_size,
            plan_once=plan_once,
        )
        sender = OutboxSender(self.producer, self.signer, source=self.source)
        self.publisher = Publisher(self.database, sender)
        self.sweeper = Sweeper(self.database, sender, self.publisher)
        self.outbox = Outbox(self.database, self.publisher)
        self.commands = CommandRouter(self.database, self.outbox, self.signer)
        self.calls = UpstreamClient(settings.addresses(), self.signer)
        self.payloads = PayloadReader(self.calls.payload)
        self.readiness = Readiness()
        self._schema = AwaitedSchema(name, migrations)
        # What it would measure and trace by itself is done here for all services alike.
        silent: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}
        self.http = FastAPI(title=name, docs_url=None, redoc_url=None, openapi_url=None, telemetry=silent)
        self._routers: list[tuple[str, EventRouter]] = []
        self._lingering: set[str] = set()
        self._on_start: list[Hook] = []
        self._on_stop: list[Hook] = []
        self._background: list[tuple[str, Hook, str]] = []
        self._stop = asyncio.Event()
        self._started = False
        self._stopping: Stopping | None = None
        self._server: HttpServer | None = None
        self._prepare_http()

    def _prepare_http(self) -> None:
        self.http.state.signer = self.signer
        install_error_handlers(self.http)
        self.http.add_middleware(ObservedRequests, service=self.name)
        self.http.add_middleware(CorrelationMiddleware)
        self.http.include_router(health_routes(self.name, self.readiness))
        self.http.include_router(bus_routes(self.commands, self.outbox, source=self.source))
        watch_stores(self.name, self.publisher, self.sweeper, self.database)
        self.readiness.add("started", self._has_started)
        self.readiness.add("database", self._database_answers)

    async def _has_started(self) -> bool:
        return self._started and not self._stop.is_set()

    async def _database_answers(self) -> bool | str:
        await self.database.ping()
        return self._schema.problem or True

    def follow(self, purpose: str, *, linger: bool = False) -> EventRouter:
        """A router for other services' events, in a group of its own named ``<service>-<purpose>``.

        ``linger``: events may come up to half a second later. For busy topics of which little is of interest.
        """
        router = EventRouter(self.outbox, self.payloads, consumer=purpose)
        self._routers.append((purpose, router))
        if linger:
            self._lingering.add(purpose)
        return router

    def on_start(self, hook: Hook) -> None:
        """Run before anything is consumed or served, once the database can be reached and is migrated."""
        self._on_start.append(hook)

    def on_stop(self, hook: Hook) -> None:
        """Run when the consumers have stopped, while HTTP, database and bus still work.

        It is cancelled when ``seconds_to_stop`` are over.
        """
        self._on_stop.append(hook)

    def seconds_to_stop(self) -> float:
        """How long the hooks of a stop that is under way may still take, all together."""
        return self._stopping.left(HOOKS) if self._stopping is not None else 0.0

    def turn_away(self) -> None:
        """During a stop: new requests are for other processes, those under way go on."""
        if self._server is not None and self._server.started:
            self._server.turn_away()

    def background(self, name: str, run: Hook, *, role: str = WORKER) -> None:
        """Keep a coroutine running for as long as the service lives; one that ends or fails is started again."""
        self._background.append((name, run, role))

    def ready_check(self, name: str, check: Check) -> None:
        self.readiness.add(name, check)

    def stop(self) -> None:
        """End ``run`` gracefully."""
        self._stop.set()

    async def run(self, roles: frozenset[str] = ROLES) -> None:
        """Serve until SIGTERM, SIGINT or ``stop``; what is in work is then finished or handed back."""
        self._handle_signals()
        server = self._server = HttpServer(
            self.http,
            host=self.settings.host,
            port=self.settings.port,
            grace_seconds=self.settings.shutdown_grace_seconds,
        )
        # HTTP first: a service that waits for its database is alive, just not ready.
        serving = asyncio.create_task(server.serve_until_told(), name="http")
        serving.add_done_callback(lambda _: self._stop.set())
        consumers: list[ConsumerLoop] = []
        consuming: list[asyncio.Task[None]] = []
        tasks: list[asyncio.Task[None]] = []
        try:
            if await unless_stopped(self._connect(), self._stop):
                consumers += self._consumers() if WORKER in roles else []
                tasks += self._background_tasks(roles)
                tasks.append(supervised("consumers.measure", lambda: watch_consumers(consumers)))
                consuming += [supervised(consumer.group, consumer.run, once=True) for consumer in consumers]
                self._started = True
                _log.info("service.started", roles=sorted(roles), port=self.settings.port)
            await self._stop.wait()
        finally:
            died = serving.done()
            self._stop.set()
            await self._shut_down(consumers, consuming, server, serving, tasks)
        if died:
            raise SystemExit(f"the HTTP server of {self.name} could not run on port {self.settings.port}")

    async def _connect(self) -> None:
        await retry_until_available(self._open_database, when=is_outage)
        await self.producer.start()
        for hook in self._on_start:
            await hook()

    def _background_tasks(self, roles: frozenset[str]) -> list[asyncio.Task[None]]:
        background = [(name, run) for name, run, role in self._background if role in roles]
        background += [("outbox.publish", self.publisher.run), ("outbox.mark", self.publisher.run_marking)]
        if API in roles:
            background.append(("outbox.sweep", self.sweeper.run))
        return [supervised(name, run) for name, run in background]

    async def _shut_down(
        self,
        consumers: list[ConsumerLoop],
        consuming: list[asyncio.Task[None]],
        server: HttpServer,
        serving: asyncio.Task[None],
        tasks: list[asyncio.Task[None]],
    ) -> None:
        _log.info("service.stopping")
        self._stopping = stopping = Stopping(self.settings.shutdown_grace_seconds)
        # Consumers before HTTP: until the last outcome is recorded, whoever waits for it may ask here.
        for consumer in consumers:
            await consumer.stop()
        if consuming:
            await asyncio.wait(consuming, timeout=stopping.left(CONSUMERS))
        for hook in self._on_stop:
            await stopping.phase("hook", HOOKS, hook)
        server.should_exit = True
        await asyncio.wait({serving}, timeout=stopping.left(REQUESTS))
        await stopping.phase("outbox", OUTBOX, self.publisher.drain)
        running = (*tasks, *consuming, serving)
        for task in running:
            task.cancel()
        # One that does not end on being cancelled waits for a server that is away; the process ends without it.
        await stopping.phase("tasks", TASKS, lambda: asyncio.gather(*running, return_exceptions=True))
        closing = (self.calls.stop, self.producer.stop, self.database.close)
        await asyncio.gather(*(stopping.phase("connections", CONNECTIONS, close) for close in closing))
        _log.info("service.stopped")

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                loop.add_signal_handler(number, self._stop.set)
            except (RuntimeError, ValueError):
                # Only the main thread may; elsewhere whoever started the service stops it.
                _log.debug("service.signals_left_alone", signal=number)

    async def _open_database(self) -> None:
        url = self.settings.database_url.get_secret_value()
        if self.settings.auto_migrate:
            await asyncio.to_thread(migrate, url, self.migrations)
        await self.database.open()
        await self.database.ping()
        await self._schema.wait(url)

    def _consumers(self) -> list[ConsumerLoop]:
        consumers = []
        if self.commands.topics:
            consumers.append(self._consumer("commands", self.commands, self.commands.topics))
        for purpose, router in self._routers:
            consumers.append(self._consumer(purpose, router, router.topics))
        return consumers

    def _consumer(self, purpose: str, handler: CommandRouter | EventRouter, topics: list[str]) -> ConsumerLoop:
        dead_letters = DeadLetters(self.producer, consumer=self.name)
        consumer = ConsumerLoop(
            self.bus,
            handler,
            dead_letters,
            group=f"{self.name}-{purpose}",
            topics=topics,
            linger=purpose in self._lingering,
        )

        async def joined() -> bool:
            return consumer.joined

        self.readiness.add(f"consumer {consumer.group}", joined)
        return consumer
