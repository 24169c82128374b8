"""The FastAPI application of the public API."""

from typing import Any, Final

from starlette.types import Receive, Scope, Send

from services.gateway.entrypoints.door.application import Door, ProtocolApplication
from services.gateway.entrypoints.door.errors import NATIVE
from services.gateway.entrypoints.door.routes import PREFIX, routes_at
from services.gateway.entrypoints.rest import (
    agents,
    artifacts,
    budgets,
    collections,
    connections,
    events,
    files,
    keys,
    knowledge_bases,
    operations,
    retention,
    secrets,
    session_socket,
    sessions,
    toolsets,
    turns,
    usage,
    webhooks,
)
from services.gateway.entrypoints.rest.reference import openapi, pages
from services.gateway.entrypoints.rest.resources import Resources

# The runtime's routes come first, since routes are tried in order, and most requests send messages.
ROUTERS: Final = (
    turns.router,
    turns.actions,
    sessions.router,
    events.router,
    agents.router,
    artifacts.router,
    files.router,
    collections.router,
    knowledge_bases.router,
    agents.catalogues,
    toolsets.router,
    secrets.router,
    keys.router,
    connections.router,
    webhooks.router,
    usage.router,
    budgets.router,
    retention.router,
    operations.router,
    pages.router,
)


class PublicApplication(ProtocolApplication):
    """Serves the public API, its reference documentation, and the WebSocket of sessions."""

    def __init__(self, door: Door, resources: Resources) -> None:
        super().__init__(door, PREFIX, ROUTERS, NATIVE)
        self.router.routes.append(session_socket.route)
        self.state.resources = resources
        self.state.static_pages = {}
        self.router.default = self._complete_path

    async def _complete_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves reads whose path lacks only the trailing slash."""
        path = scope["path"]
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and not path.endswith("/"):
            completed = f"{path}/"
            if routes_at(self, completed):
                # Leaves the raw path as requested.
                scope["path"] = completed
                await self.router(scope, receive, send)
                return
        await self.router.not_found(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        return openapi_document()


def openapi_document() -> dict[str, Any]:
    """Builds the OpenAPI 3.1 document of the public API."""
    return openapi.document([route for router in ROUTERS for route in router.routes])
