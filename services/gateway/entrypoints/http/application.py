"""The public API as a FastAPI application."""

from collections.abc import Collection
from typing import Any, Final

from fastapi import FastAPI
from starlette.middleware import Middleware

from libs.service_defaults.observed_requests import SILENT, ObservedRequests
from services.gateway.entrypoints.http.authentication import Authentication
from services.gateway.entrypoints.http.cross_origin import CrossOriginMiddleware
from services.gateway.entrypoints.http.dependencies import UseCases
from services.gateway.entrypoints.http.errors import install_error_handlers
from services.gateway.entrypoints.http.forwarding import Forwarder
from services.gateway.entrypoints.http.reference import openapi, pages, texts
from services.gateway.entrypoints.http.request_lifecycle import InFlightRequests, RequestLifecycleMiddleware
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
    retention,
    runtime,
    secrets,
    sessions,
    toolsets,
    usage,
    webhooks,
)
from services.gateway.entrypoints.http.sockets import session_socket
from services.gateway.entrypoints.http.transfer_proxy import TransferProxy

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
    pages.router,
)


class PublicApplication(FastAPI):
    """Routes, in front of them from the outside: correlation ids and measuring, CORS, the end of requests that fail."""

    def __init__(
        self,
        authentication: Authentication,
        use_cases: UseCases,
        forwarder: Forwarder,
        transfers: TransferProxy,
        *,
        in_flight: InFlightRequests,
        shared_origins: Collection[str] = (),
    ) -> None:
        super().__init__(
            title=texts.TITLE,
            version="1.0.0",
            description=texts.INTRODUCTION,
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            redirect_slashes=False,
            telemetry=SILENT,
            middleware=[
                Middleware(ObservedRequests, service="gateway", public=True),
                Middleware(CrossOriginMiddleware, configured=shared_origins, authentication=authentication),
                Middleware(RequestLifecycleMiddleware, in_flight=in_flight),
            ],
        )
        install_error_handlers(self)
        for router in _ROUTERS:
            # Not by include_router: it makes every route anew for each application, and matches it twice per request.
            self.router.routes.extend(router.routes)
        self.router.routes.append(session_socket.route)
        self.state.authentication = authentication
        self.state.use_cases = use_cases
        self.state.forwarder = forwarder
        self.state.transfers = transfers
        self.state.static_pages = {}

    def openapi(self) -> dict[str, Any]:
        return openapi.document(self)
