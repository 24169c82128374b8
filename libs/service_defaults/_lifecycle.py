"""Starts the parts of a service in order, keeps them running, and stops them within the grace period."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog
from fastapi import FastAPI
from starlette.types import ASGIApp

from libs.service_defaults._consumers import Consumers
from libs.service_defaults._http_server import HttpServer
from libs.service_defaults._supervision import Hook, log_unretrieved, supervised, unless_stopped
from libs.service_defaults.settings import ServiceSettings

_log = structlog.get_logger("service")
API: Final = "api"
WORKER: Final = "worker"
# The share of the grace period at which each phase of a shutdown ends. Unused time is left to later phases.
_CONSUMERS: Final = 0.35
_HOOKS: Final = 0.75
_REQUESTS: Final = 0.85
_OUTBOX: Final = 0.9
_TASKS: Final = 0.95
_CONNECTIONS: Final = 1.0


class Lifecycle:
    """The life of a service process, from startup to shutdown.

    ``connect`` opens connections, ``drain`` publishes the messages in the outbox, and ``close`` closes connections.
    """

    def __init__(
        self,
        app: FastAPI,
        settings: ServiceSettings,
        consumers: Consumers,
        *,
        worker: str = WORKER,
        connect: Hook,
        drain: Hook,
        close: Sequence[Hook],
    ) -> None:
        self.started = False
        self.stopping = asyncio.Event()
        self._app = app
        self._settings = settings
        self._consumers = consumers
        self._worker = worker
        self._connect = connect
        self._drain = drain
        self._close = close
        self._on_start: list[Hook] = []
        self._on_stop: list[Hook] = []
        self._background: list[tuple[str, Hook, str | None]] = []
        self._mounts: dict[str, ASGIApp] = {}
        self._server: HttpServer | None = None
        self._deadlines: _StopDeadlines | None = None

    def on_start(self, hook: Hook) -> None:
        """Registers a hook that runs once the database is reachable and migrated, before the consumers start."""
        self._on_start.append(hook)

    def on_stop(self, hook: Hook) -> None:
        """Registers a hook that runs after the consumers have stopped. It can run until ``seconds_to_stop`` returns 0.

        In the meantime, HTTP, the database and the bus still work.
        """
        self._on_stop.append(hook)

    def background(self, name: str, run: Hook, *, role: str | None = WORKER) -> None:
        """Runs ``run`` in processes with this role, or in all processes if ``role`` is None. Restarts it as needed."""
        self._background.append((name, run, role))

    def mount(self, prefix: str, app: ASGIApp) -> None:
        """Passes requests whose path starts with ``prefix`` to ``app``, without the service's own middleware."""
        self._mounts[prefix] = app

    def seconds_to_stop(self) -> float:
        """Returns the seconds that remain for all hooks of the current shutdown."""
        return self._deadlines.left(_HOOKS) if self._deadlines is not None else 0.0

    def stop_accepting(self) -> None:
        """Stops accepting requests during a shutdown, so that other processes serve them. Running requests continue."""
        if self._server is not None and self._server.started:
            self._server.stop_accepting()

    def stop(self) -> None:
        """Makes ``run`` shut down gracefully."""
        self.stopping.set()

    async def run(self, roles: frozenset[str] | None) -> None:
        """Runs the service until SIGTERM, SIGINT or ``stop``, then finishes or releases its work.

        If ``roles`` is None, all roles run in this process.
        """
        settings = self._settings
        self._handle_signals()
        asyncio.get_running_loop().set_exception_handler(log_unretrieved)
        server = self._server = HttpServer(
            self._app,
            self._mounts,
            host=settings.host,
            port=settings.port,
            grace_seconds=settings.shutdown_grace_seconds,
        )
        # HTTP starts first: a service that waits for its database is alive but not ready.
        serving = asyncio.create_task(server.serve_until_stopped(), name="http")
        serving.add_done_callback(lambda _: self.stop())
        tasks: list[asyncio.Task[None]] = []
        try:
            if await unless_stopped(self._start(), self.stopping):
                self._consumers.start(routers=roles is None or self._worker in roles, roles=roles)
                tasks += [
                    supervised(name, run)
                    for name, run, role in self._background
                    if roles is None or role in (None, *roles)
                ]
                self.started = True
                _log.info("service.started", roles="all" if roles is None else sorted(roles), port=settings.port)
            await self.stopping.wait()
        finally:
            died = serving.done()
            self.stop()
            await self._shut_down(server, serving, tasks)
        if died:
            raise SystemExit(f"the HTTP server of {self._app.title} couldn't run on port {settings.port}")

    async def _start(self) -> None:
        await self._connect()
        for hook in self._on_start:
            await hook()

    async def _shut_down(
        self, server: HttpServer, serving: asyncio.Task[None], tasks: Sequence[asyncio.Task[None]]
    ) -> None:
        _log.info("service.stopping")
        self._deadlines = deadlines = _StopDeadlines(self._settings.shutdown_grace_seconds)
        # Consumers stop before HTTP, so that waiting callers can still look up the last outcomes.
        await self._consumers.stop(deadlines.left(_CONSUMERS))
        for hook in self._on_stop:
            await deadlines.run("hook", _HOOKS, hook)
        server.should_exit = True
        await asyncio.wait({serving}, timeout=deadlines.left(_REQUESTS))
        await deadlines.run("outbox", _OUTBOX, self._drain)
        running = (*tasks, *self._consumers.tasks, serving)
        for task in running:
            task.cancel()
        # A task that ignores its cancellation is waiting for an unreachable server. The process doesn't wait for it.
        await deadlines.run("tasks", _TASKS, lambda: asyncio.gather(*running, return_exceptions=True))
        await asyncio.gather(*(deadlines.run("connections", _CONNECTIONS, close) for close in self._close))
        _log.info("service.stopped")

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                loop.add_signal_handler(number, self.stop)
            except (RuntimeError, ValueError):
                # Only the main thread can handle signals. Elsewhere, the caller of `run` stops the service.
                _log.debug("service.signals_not_handled", signal=number)


class _StopDeadlines:
    """The deadlines of a shutdown's phases, within ``seconds`` in total."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._seconds = seconds

    def left(self, phase: float) -> float:
        """Returns the seconds until a phase must end."""
        return max(0.0, self._began + self._seconds * phase - self._loop.time())

    async def run(self, name: str, phase: float, work: Callable[[], Awaitable[object]]) -> None:
        """Runs a phase's work until the phase must end. Logs failures, so that the remaining phases still run."""
        try:
            async with asyncio.timeout(self.left(phase)):
                await work()
        except TimeoutError:
            _log.warning("service.stop_timed_out", phase=name)
        except Exception:
            _log.exception("service.stop_failed", phase=name)
