"""Ends requests that fail, whose client disconnects, or that are still running when the service stops."""

import asyncio
from contextlib import AsyncExitStack
from typing import Final

import structlog
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from libs.contracts.errors import ServiceError, ServiceUnavailable
from services.gateway.entrypoints.door.errors import NATIVE, ErrorShape, as_service_error, info_for
from services.gateway.entrypoints.door.metrics import REFUSALS, WAITING
from services.gateway.entrypoints.door.streams import MEDIA_TYPE

_log = structlog.get_logger("http")
_WATCH_AFTER_SECONDS: Final = 1.0
_STOPPING: Final = ServiceUnavailable(
    "The service is restarting. The request may still be executed; retrying it with the same Idempotency-Key is safe.",
    retry_after=2,
)


class InFlightRequests:
    """The tasks of all requests in progress."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[object]] = set()
        WAITING.set_function(lambda: len(self.tasks))

    async def drain(self, seconds: float) -> None:
        """Waits for running requests to finish. After ``seconds``, ends the remaining requests with an error."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self.tasks and (left := deadline - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(self.tasks, timeout=left)
        for task in self.tasks:
            task.cancel()


class DisconnectWatcher:
    """Keeps a request's task in ``tasks`` while it runs, and cancels the task if the client closes the connection.

    Watching starts after one second, because most requests finish sooner. Uploads aren't watched.
    """

    def __init__(self, scope: Scope, receive: Receive, tasks: set[asyncio.Task[object]]) -> None:
        self.disconnected = False
        self._receive = receive
        self._tasks = tasks
        self._has_no_body = scope["method"] in ("GET", "DELETE", "HEAD", "OPTIONS")
        self._is_upload = (b"content-type", b"multipart/") in ((name, value[:10]) for name, value in scope["headers"])
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        """Receives a message. Starts watching for a disconnect at the end of the body."""
        message = await self._receive()
        if not message.get("more_body") and self._timer is None and not self._is_upload:
            self._begin()
        return message

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[object] = task
        self._tasks.add(task)
        if self._has_no_body:
            self._begin()

    def __exit__(self, *_: object) -> None:
        self._tasks.discard(self._task)
        for waiting in (self._timer, self._watcher):
            if waiting is not None:
                waiting.cancel()

    def _begin(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_WATCH_AFTER_SECONDS, self._start_watching)

    def _start_watching(self) -> None:
        self._watcher = asyncio.create_task(self._watch(), name="http.disconnect")

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.disconnected = True
        self._task.cancel()


class RequestLifecycleMiddleware:
    """Ends a failed request with an error response, or with an error event in an open event stream.

    Other responses that have begun are left unfinished, so that a truncated download doesn't look complete. Raises
    ``ClientDisconnect`` if the client has disconnected.
    """

    def __init__(self, app: ASGIApp, in_flight: InFlightRequests, shape: ErrorShape = NATIVE) -> None:
        self._app = app
        self._in_flight = in_flight
        self._shape = shape

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        response = _Response(send, self._shape)
        watcher = DisconnectWatcher(scope, receive, self._in_flight.tasks)
        try:
            with watcher:
                async with AsyncExitStack() as held:
                    scope.setdefault("state", {})["held"] = held
                    await self._app(scope, watcher.receive, response.send)
        except ClientDisconnect:
            raise
        except asyncio.CancelledError:
            if watcher.disconnected:
                raise ClientDisconnect from None
            await response.fail(_STOPPING, scope, receive)
        except Exception as problem:
            error = as_service_error(problem)
            REFUSALS.labels(error.kind.value).inc()
            await response.fail(error, scope, receive)


class _Response:
    """Tracks how much of a response has been sent, and can end the response with an error."""

    def __init__(self, send: Send, shape: ErrorShape) -> None:
        self._send = send
        self._shape = shape
        self._started = False
        self._ended = False
        self._is_event_stream = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            self._is_event_stream = any(
                name == b"content-type" and value.startswith(MEDIA_TYPE.encode()) for name, value in message["headers"]
            )
        else:
            self._ended = not message.get("more_body", False)
        await self._send(message)

    async def fail(self, problem: ServiceError, scope: Scope, receive: Receive) -> None:
        info = info_for(HTTPConnection(scope), problem)
        if not self._started:
            await self._shape.response(info)(scope, receive, self.send)
        elif self._is_event_stream and not self._ended:
            await self.send({"type": "http.response.body", "body": self._shape.event(info)})
        else:
            _log.warning("response.aborted", problem=problem.message)
