"""The HTTP server of a service, with limits on the resources of each connection."""

import asyncio
import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from libs.contracts.errors import InvalidRequest, ServiceError, TooLarge
from libs.contracts.identifiers import new_id
from libs.service_defaults.errors import error_body
from libs.service_defaults.observed_requests import HEADER

LARGEST_HEAD: Final = 64 * 1024
_LARGEST_MESSAGE: Final = 512 * 1024
_PING_SECONDS: Final = 20.0
_HEAD_SECONDS: Final = 60.0
_UNREAD_SECONDS: Final = 60.0
_UNSENT_BYTES: Final = 128 * 1024
# Uvicorn logs each connection with its query string, which may contain a publishable key.
_log: Final = logging.getLogger("uvicorn.websocket")
_log.setLevel(logging.WARNING)


class ReaderTimer:
    """Aborts a connection whose client has stopped reading, so that the handler doesn't wait forever."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, seconds: float) -> None:
        self._loop = loop
        self._transport = transport
        self._seconds = seconds
        self.handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self.handle is None:
            self.handle = self._loop.call_later(self._seconds, self._check, self._transport.get_write_buffer_size())

    def stop(self) -> None:
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None

    def _check(self, unsent_before: int) -> None:
        self.handle = None
        if self._transport.get_write_buffer_size() < unsent_before:
            self.start()
        else:
            self._transport.abort()


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """Uvicorn's WebSocket protocol, which aborts connections whose client has stopped reading."""

    unread_seconds: float = _UNREAD_SECONDS

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.logger = _log

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.reader_timer = ReaderTimer(self.loop, transport, self.unread_seconds)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.reader_timer.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.reader_timer.stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self.reader_timer.stop()
        super().connection_lost(exc)


class HttpServer(uvicorn.Server):
    """Serves HTTP and ignores signals, which the service handles.

    ``mounts`` contains applications by path prefix. ``app`` receives all other requests.
    """

    def __init__(
        self,
        app: ASGIApp,
        mounts: Mapping[str, ASGIApp] | None = None,
        *,
        host: str,
        port: int,
        grace_seconds: float,
    ) -> None:
        self._ending = asyncio.Event()
        super().__init__(
            uvicorn.Config(
                _with_mounts(app, mounts) if mounts else app,
                host=host,
                port=port,
                http=BoundedConnection,
                ws=BoundedWebSocket,
                ws_max_size=_LARGEST_MESSAGE,
                ws_ping_interval=_PING_SECONDS,
                ws_ping_timeout=_PING_SECONDS,
                # Messages are small, and compression would take tens of kilobytes per connection.
                ws_per_message_deflate=False,
                access_log=False,
                log_config=None,
                lifespan="off",
                server_header=False,
                date_header=False,
                # No code uses the client's address, and the middleware would run on every request.
                proxy_headers=False,
                timeout_graceful_shutdown=max(1, int(grace_seconds)),
                timeout_keep_alive=75,
                backlog=2048,
            )
        )

    @property
    def should_exit(self) -> bool:
        """Returns whether the server is stopping. Set this to stop the server."""
        return self._ending.is_set()

    @should_exit.setter
    def should_exit(self, ending: bool) -> None:
        if ending:
            self._ending.set()

    async def main_loop(self) -> None:
        """Replaces uvicorn's main loop, whose ten wake-ups a second use a tenth of the CPU time of an idle stack."""
        await self.on_tick(0)
        await self._ending.wait()

    async def serve_until_stopped(self) -> None:
        """Serves until ``should_exit`` is set. Returns immediately if another program uses the port."""
        try:
            listener = self.config.bind_socket()
            # A child that outlives this process would keep the port.
            listener.set_inheritable(False)
            # Connections inherit this limit. By default, the kernel buffers megabytes of a response, which hides for
            # minutes whether a slow client is reading.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
            await self.serve(sockets=[listener])
        except SystemExit:
            # In a task, uvicorn's SystemExit would end the event loop before the service's other parts are stopped.
            return

    def stop_accepting(self) -> None:
        """Stops accepting connections, and closes each connection once its current response is complete."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _with_mounts(app: ASGIApp, mounts: Mapping[str, ASGIApp]) -> ASGIApp:
    async def by_prefix(scope: Scope, receive: Receive, send: Send) -> None:
        found = next((mounted for prefix, mounted in mounts.items() if scope["path"].startswith(prefix)), app)
        await found(scope, receive, send)

    return by_prefix


class BoundedConnection(HttpToolsProtocol):
    """Uvicorn's HTTP connection, with limits on the headers and on the time that a client takes.

    Headers over 64 KiB get a 431 response. A connection is closed if its client takes over 60 s to send the headers, or
    doesn't read the response for 60 s. Without these limits, clients without a key could fill the memory.
    """

    head_seconds: float = _HEAD_SECONDS
    unread_seconds: float = _UNREAD_SECONDS
    _in_head: bool = True
    _head_size: int = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.reader_timer = ReaderTimer(self.loop, transport, self.unread_seconds)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self.reader_timer.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._in_head:
            if self._head_timer is not None:
                self._stop_head_timer()
            return
        self._head_size += len(data)
        if self._head_size > LARGEST_HEAD and not self.transport.is_closing():
            self._refuse(
                "431 Request Header Fields Too Large", TooLarge("The request's headers are larger than 64 KiB.")
            )
        elif self._head_timer is None:
            self._start_head_timer()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Responds with the standard error body, where uvicorn would send plain text."""
        self._refuse("400 Bad Request", InvalidRequest("The request isn't valid HTTP."))

    def _refuse(self, status: str, problem: ServiceError) -> None:
        """Rejects a request that can't be passed to the application."""
        correlation_id = new_id()
        body = error_body(problem.info(correlation_id))
        head = (
            f"HTTP/1.1 {status}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            f"{HEADER}: {correlation_id}",
            "connection: close",
        )
        self.transport.write("\r\n".join((*head, "", "")).encode() + body)
        self.transport.close()

    def on_message_begin(self) -> None:
        self._in_head, self._head_size = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.reader_timer.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        # A closing connection still needs the timer, since the connection ends only once the client has read the rest.
        if not self.transport.is_closing():
            self.reader_timer.stop()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self.reader_timer.start()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self.reader_timer.start()

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
