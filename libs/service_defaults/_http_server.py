"""The HTTP server of a service, under the service's own signal handling."""

from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from libs.service_defaults._http_protocol import BoundedConnection


class HttpServer(uvicorn.Server):
    """Serves until told to stop; signals are the service's business, not the server's."""

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

    async def serve_until_told(self) -> None:
        """Returns when ``should_exit`` is set, or at once when the port is taken."""
        try:
            await self.serve()
        except SystemExit:
            # In a task this would end the event loop before anything else could be stopped.
            return

    def turn_away(self) -> None:
        """Take no more connections and end those that are there with their present answer, or now when they idle.

        Callers go to another process, while what is under way here comes to its end.
        """
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
