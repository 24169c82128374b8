"""The public API as a FastAPI application."""

from typing import Any, Final

from services.gateway.entrypoints.http.errors import NATIVE
from services.gateway.entrypoints.http.protocol_application import ProtocolApplication, PublicEdge
from services.gateway.entrypoints.http.reference import openapi, pages, texts
from services.gateway.entrypoints.http.routers import (
    actions,
    agents,
    artifacts,
    budgets,
    catalogues,
    collections,
    connections,
    events,
    files,
    keys,
    knowledge_bases,
    operations,
    retention,
    runtime,
    secrets,
    sessions,
    toolsets,
    usage,
    webhooks,
)
from services.gateway.entrypoints.http.routing import PREFIX
from services.gateway.entrypoints.http.sockets import session_socket

# The runtime's first: routes are tried in order, and nearly all requests execute messages.
_ROUTERS: Final = (
    runtime.router,
    actions.router,
    sessions.router,
    events.router,
    agents.router,
    artifacts.router,
    files.router,
    collections.router,
    knowledge_bases.router,
    catalogues.router,
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
    """Routes of the public API, with its own document and its socket."""

    def __init__(self, edge: PublicEdge) -> None:
        super().__init__(edge, PREFIX, _ROUTERS, NATIVE)
        self.title, self.version, self.description = texts.TITLE, "1.0.0", texts.INTRODUCTION
        self.router.routes.append(session_socket.route)
        self.state.static_pages = {}

    def openapi(self) -> dict[str, Any]:
        return openapi.document(self)
