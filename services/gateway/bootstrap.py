"""Builds the gateway from its parts."""

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import structlog

from libs.contracts.envelope import Envelope
from libs.contracts.events.gateway import ApiKeyRevoked, ConnectionDeleted
from libs.contracts.events.registry import AgentCreated, AgentDeleted, AgentUpdated
from libs.eventing import CommandSender
from libs.service_defaults import API, Service
from services.gateway.adapters.postgres.connections import PostgresConnections
from services.gateway.adapters.postgres.idempotency import PostgresIdempotency
from services.gateway.adapters.postgres.keys import PostgresKeys
from services.gateway.adapters.tokens import JwtTokens
from services.gateway.domain.ports import (
    ConnectionStore,
    IdempotencyStore,
    KeyStore,
    TokenCodec,
    Upstreams,
)
from services.gateway.domain.rate_limit import RateLimiter
from services.gateway.entrypoints.http.application import PREFIX, Application
from services.gateway.entrypoints.http.authentication import Authentication
from services.gateway.entrypoints.http.cross_origin import CrossOrigin
from services.gateway.entrypoints.http.event_streams import EventStreams
from services.gateway.entrypoints.http.forwarding import Forwarding
from services.gateway.entrypoints.http.operations import Operation
from services.gateway.entrypoints.http.reference.pages import Pages
from services.gateway.entrypoints.http.resources.agents import Agents
from services.gateway.entrypoints.http.resources.artifacts import Artifacts
from services.gateway.entrypoints.http.resources.catalogues import Catalogues
from services.gateway.entrypoints.http.resources.collections import Collections
from services.gateway.entrypoints.http.resources.connections import Connections
from services.gateway.entrypoints.http.resources.files import Files
from services.gateway.entrypoints.http.resources.keys import Keys
from services.gateway.entrypoints.http.resources.knowledge_bases import KnowledgeBases
from services.gateway.entrypoints.http.resources.runtime import Runtime
from services.gateway.entrypoints.http.resources.sessions import Sessions
from services.gateway.entrypoints.http.resources.tokens import Tokens
from services.gateway.entrypoints.http.transfers import Transfers
from services.gateway.entrypoints.http.uploads import TransferProxy
from services.gateway.settings import GatewaySettings
from services.gateway.use_cases.authentication.key_authenticator import KeyAuthenticator
from services.gateway.use_cases.authentication.public_principals import PublicPrincipals
from services.gateway.use_cases.commands.command_dispatcher import CommandDispatcher
from services.gateway.use_cases.issue_token import IssueToken
from services.gateway.use_cases.open_session import OpenSession
from services.gateway.use_cases.submit_turn import SubmitTurn

MIGRATIONS: Final = Path(__file__).parent / "migrations"
_IDEMPOTENCY_DAYS: Final = 3
_CLEANING_SECONDS: Final = 3600.0
_log = structlog.get_logger("gateway")

Asgi = Callable[[MutableMapping[str, Any], Callable[..., Any], Callable[..., Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Everything that the public API works with."""

    keys: KeyStore
    connections: ConnectionStore
    tokens: TokenCodec
    idempotency: IdempotencyStore
    bus: CommandSender
    upstreams: Upstreams
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    shared_origins: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PublicApi:
    """The application, and what it is told of credentials, by their ids: an agent is one for its visitors.

    ``revoked``: it ended, and what is under way with it as well. ``changed``: it has to be looked up anew.
    """

    application: Application
    revoked: Callable[[str], None]
    changed: Callable[[str], None]


def assemble(outside: Outside) -> PublicApi:
    """The public API on top of real or fake surroundings."""
    heard: dict[str, Any] = {"fresh": outside.bus.fresh, "now": outside.now, "monotonic": outside.monotonic}
    authenticator = KeyAuthenticator(outside.keys, outside.tokens, **heard)
    public_keys = PublicPrincipals(outside.connections, outside.upstreams, **heard)
    streams = EventStreams()
    authentication = Authentication(authenticator, public_keys, RateLimiter(outside.monotonic))

    def changed(identifier: str) -> None:
        authenticator.forget(identifier)
        public_keys.forget(identifier)

    def revoked(identifier: str) -> None:
        changed(identifier)
        streams.end(identifier)

    operations = (*_resources(outside), *_access(outside, changed))
    application = Application(
        operations,
        authentication,
        CrossOrigin(outside.shared_origins, authentication),
        streams,
        Pages(operations),
    )
    return PublicApi(application, revoked, changed)


def _access(outside: Outside, forget: Callable[[str], None]) -> tuple[Operation, ...]:
    now = outside.now
    return (
        *Keys(outside.keys, now=now, forget=forget).operations(),
        *Tokens(IssueToken(outside.tokens, now)).operations(),
        *Connections(outside.connections, outside.upstreams, now=now, forget=forget).operations(),
    )


def _resources(outside: Outside) -> tuple[Operation, ...]:
    commands = CommandDispatcher(outside.bus, outside.idempotency, outside.upstreams.installed)
    forward = Forwarding(outside.upstreams)
    transfers = TransferProxy(outside.upstreams, Transfers())
    return (
        *Agents(commands, forward).operations(),
        *Sessions(OpenSession(commands, outside.upstreams), commands, forward).operations(),
        *Runtime(SubmitTurn(commands), commands, forward).operations(),
        *Artifacts(commands, forward, transfers).operations(),
        *Files(commands, forward, transfers).operations(),
        *Collections(commands, forward).operations(),
        *KnowledgeBases(commands, forward).operations(),
        *Catalogues(forward).operations(),
    )


def build(settings: GatewaySettings) -> Service:
    service = Service("gateway", settings, migrations=MIGRATIONS)
    sender = CommandSender(
        service.bus,
        service.producer,
        service.signer,
        service.calls.command_state,
        service.payloads,
        source=service.source,
    )
    for number, reader in enumerate(sender.readers):
        service.background(f"events.read.{number}", reader.run, role=API)
    idempotency = PostgresIdempotency(service.database)
    api = assemble(
        Outside(
            keys=PostgresKeys(service.database, service.outbox),
            connections=PostgresConnections(service.database, service.outbox),
            tokens=JwtTokens(*settings.signing_keys()),
            idempotency=idempotency,
            bus=sender,
            upstreams=service.calls,
            now=_now,
            monotonic=time.monotonic,
            shared_origins=settings.shared_origins(),
        )
    )
    listen(sender, api)
    service.ready_check("events", _positioned(sender))
    service.http.add_middleware(_Outermost, application=api.application)

    async def drain() -> None:
        # What still came in would end with the process.
        service.turn_away()
        await api.application.drain(service.seconds_to_stop() * 0.8)

    service.on_stop(drain)
    service.background("idempotency.clean", lambda: _clean(idempotency))
    return service


def listen(sender: CommandSender, api: PublicApi) -> None:
    """Tell the public API what becomes of credentials; each such event's subject is the credential's id."""

    def revoked(envelope: Envelope, _: bytes) -> None:
        api.revoked(envelope.subject)

    def changed(envelope: Envelope, _: bytes) -> None:
        api.changed(envelope.subject)

    for event in (ApiKeyRevoked, ConnectionDeleted, AgentDeleted):
        sender.on_event(event.TYPE, revoked)
    # A page may have asked for an agent's key before there was the agent.
    for news in (AgentCreated, AgentUpdated):
        sender.on_event(news.TYPE, changed)


class _Outermost:
    """Hands everything below ``/api/v1`` to the public API before any other part of the service sees it."""

    def __init__(self, app: Asgi, application: Application) -> None:
        self._app = app
        self._application = application

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: Callable[..., Any], send: Callable[..., Any]
    ) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PREFIX):
            await self._application(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _positioned(sender: CommandSender) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return sender.positioned()

    return check


async def _clean(idempotency: PostgresIdempotency) -> None:
    while True:
        forgotten = await idempotency.forget_old(_IDEMPOTENCY_DAYS)
        _log.info("idempotency.cleaned", forgotten=forgotten)
        await asyncio.sleep(_CLEANING_SECONDS)


def _now() -> datetime:
    return datetime.now(UTC)
