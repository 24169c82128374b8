"""The parts of the gateway that all protocols share, and the base class of their applications."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.middleware import Middleware
from starlette.responses import Response

from libs.contracts.messages import Command, Received
from libs.service_defaults.observed_requests import SILENT, ObservedRequests
from services.gateway.domain.idempotency import Write
from services.gateway.entrypoints.door.answers import UpstreamReplies
from services.gateway.entrypoints.door.callers import Authentication
from services.gateway.entrypoints.door.cors import CrossOriginMiddleware
from services.gateway.entrypoints.door.errors import ErrorShape, install_error_shape
from services.gateway.entrypoints.door.image_bodies import LargeBodies
from services.gateway.entrypoints.door.lifecycle import InFlightRequests, RequestLifecycleMiddleware
from services.gateway.entrypoints.door.routes import PublicRoute
from services.gateway.entrypoints.door.streams import EventStreams
from services.gateway.entrypoints.door.transfer_proxy import TransferProxy
from services.gateway.entrypoints.door.writes import IdempotentWrite
from services.gateway.use_cases.agents import Agents
from services.gateway.use_cases.command_dispatcher import CommandDispatcher, Make
from services.gateway.use_cases.reading.event_reader import EventReader
from services.gateway.use_cases.sessions import Sessions
from services.gateway.use_cases.turns import Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    authentication: Authentication
    in_flight: InFlightRequests
    shared_origins: Collection[str]
    commands: CommandDispatcher
    agents: Agents
    sessions: Sessions
    turns: Turns
    reader: EventReader
    owners: UpstreamReplies
    streams: EventStreams
    transfers: TransferProxy
    large_bodies: LargeBodies


async def _door(request: Request) -> Door:
    found: Door = request.app.state.door
    return found


async def _owners(request: Request) -> UpstreamReplies:
    return (await _door(request)).owners


async def _transfers(request: Request) -> TransferProxy:
    return (await _door(request)).transfers


DoorDep = Annotated[Door, Depends(_door)]
Upstream = Annotated[UpstreamReplies, Depends(_owners)]
TransferProxyDep = Annotated[TransferProxy, Depends(_transfers)]


@dataclass(frozen=True, slots=True)
class Submission:
    """Submits a write's command, and waits for its terminal event. Raises the command's error if it fails."""

    write: Write
    commands: CommandDispatcher

    async def __call__(self, command: Command, *, accepted_within: float | None = None) -> Received:
        """Sends the command and returns its terminal event.

        ``accepted_within``: how many seconds the other service may take to accept the command.
        """
        return await self.commands.run(self.write, command, accepted_within=accepted_within)

    async def new(self, command: type[Command], make: Make) -> Received:
        """Creates an entity. ``make`` builds the command from the entity's ID."""
        return await self.commands.create(self.write, command, make)


async def _submission(write: IdempotentWrite, door: DoorDep) -> Submission:
    return Submission(write, door.commands)


Submit = Annotated[Submission, Depends(_submission)]
"""Dependency that must be declared after the operation's body, because it hashes the body."""


class ProtocolApplication(FastAPI):
    """A protocol's routes, with the middleware that all protocols share. Errors have the protocol's format.

    ``prefix``: the path below which the application is mounted. The routes' paths include the prefix. ``middleware``
    runs between CORS and the routes.
    """

    def __init__(
        self,
        door: Door,
        prefix: str,
        routers: Sequence[APIRouter],
        shape: ErrorShape,
        *,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        super().__init__(
            title=prefix,
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            redirect_slashes=False,
            telemetry=SILENT,
            middleware=[
                Middleware(ObservedRequests, service="gateway", public=True),
                Middleware(CrossOriginMiddleware, configured=door.shared_origins, authentication=door.authentication),
                *middleware,
                Middleware(RequestLifecycleMiddleware, in_flight=door.in_flight, shape=shape),
            ],
        )
        self.prefix = prefix
        install_error_shape(self, shape)
        for router in routers:
            # Doesn't use include_router, which copies every route for each application and matches it twice per
            # request.
            self.router.routes.extend(router.routes)
        self.state.door = door


def protocol_router(prefix: str) -> APIRouter:
    """Creates a router for a ``ProtocolApplication``."""
    return APIRouter(prefix=prefix, route_class=PublicRoute, default_response_class=Response)


def turn_headers(session_id: str, turn_id: str | None = None) -> dict[str, str]:
    """Returns headers with the IDs of the session and turn."""
    return {"X-Session-ID": session_id} | ({} if turn_id is None else {"X-Turn-ID": turn_id})
