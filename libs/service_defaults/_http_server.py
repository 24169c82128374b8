"""The HTTP server of a service, under the service's own signal handling."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from libs.service_defaults._http_protocol import BoundedConnection

_UNSENT_BYTES: Final = 128 * 1024


class HttpServer(uvicorn.Server):
    """Serves until told to stop; the service handles the signals."""

    def __init__(self, app: ASGIApp, *, host: str, port: int, grace_seconds: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                http=BoundedConnection,
                access_log=False,
                log_config=None,
                lifespan="off",
                server_header=False,
                date_header=False,
                # Nothing here asks for the client's address, and the middleware would run on every request.
                proxy_headers=False,
                timeout_graceful_shutdown=max(1, int(grace_seconds)),
                timeout_keep_alive=75,
                backlog=2048,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in (listener for server in self.servers for listener in server.sockets):
            # Connections inherit it. By default the system takes megabytes of an answer, and what a slow client has
            # read of them shows in no buffer for minutes.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)

    async def serve_until_told(self) -> None:
        """Returns when ``should_exit`` is set, or at once when the port is taken."""
        try:
            await self.serve()
        except SystemExit:
            # In a task it would end the event loop before anything else could be stopped.
            return

    def turn_away(self) -> None:
        """Takes no more connections, and closes idle ones now and the others after their current answer.

        Callers go to another process, while requests in work here are finished.
        """
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
