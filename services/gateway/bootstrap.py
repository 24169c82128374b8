"""Builds the gateway from its parts."""

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson
import structlog

from libs.contracts.envelope import Envelope
from libs.contracts.events.gateway import ApiKeyRevoked
from libs.eventing import CommandSender
from libs.service_defaults import API, Service
from services.gateway.adapters.postgres_idempotency import PostgresIdempotency
from services.gateway.adapters.postgres_keys import PostgresKeys
from services.gateway.domain.rate_limit import RateLimiter
from services.gateway.entrypoints.http.application import PREFIX, Application
from services.gateway.entrypoints.http.authentication import Authentication
from services.gateway.entrypoints.http.event_streams import EventStreams
from services.gateway.entrypoints.http.forwarding import Forwarding
from services.gateway.entrypoints.http.operations import Operation
from services.gateway.entrypoints.http.reference.pages import Pages
from services.gateway.entrypoints.http.resources.agents import Agents
from services.gateway.entrypoints.http.resources.catalogues import Catalogues
from services.gateway.entrypoints.http.resources.keys import Keys
from services.gateway.entrypoints.http.resources.runtime import Runtime
from services.gateway.entrypoints.http.resources.sessions import Sessions
from services.gateway.settings import GatewaySettings
from services.gateway.use_cases.authenticate import KeyAuthenticator
from services.gateway.use_cases.carry_out import CarryOut
from services.gateway.use_cases.change_agents import ChangeAgents
from services.gateway.use_cases.change_sessions import ChangeSessions
from services.gateway.use_cases.execute_turn import ExecuteTurns
from services.gateway.use_cases.manage_keys import KeyManager

MIGRATIONS: Final = Path(__file__).parent / "migrations"
_IDEMPOTENCY_DAYS: Final = 3
_CLEANING_SECONDS: Final = 3600.0
_log = structlog.get_logger("gateway")

Asgi = Callable[[MutableMapping[str, Any], Callable[..., Any], Callable[..., Any]], Awaitable[None]]


def build(settings: GatewaySettings) -> Service:
    service = Service("gateway", settings, migrations=MIGRATIONS)
    sender = CommandSender(
        service.bus, service.producer, service.signer, service.calls.command_state, service.payloads,
        source=service.source,
    )  # fmt: skip
    for number, reader in enumerate(sender.readers):
        service.background(f"events.read.{number}", reader.run, role=API)
    store = PostgresKeys(service.database, service.outbox)
    keys = KeyAuthenticator(store, fresh=sender.fresh, now=_now, monotonic=time.monotonic)
    streams = EventStreams()

    def revoked(_: Envelope, payload: bytes) -> None:
        key_id = str(orjson.loads(payload)["key_id"])
        keys.forget(key_id)
        streams.end(key_id)

    sender.on_event(ApiKeyRevoked.TYPE, revoked)
    service.ready_check("events", _positioned(sender))
    idempotency = PostgresIdempotency(service.database)
    operations = _operations(service, sender, idempotency, KeyManager(store, now=_now, forget=keys.forget))
    authentication = Authentication(keys, RateLimiter(time.monotonic))
    application = Application(operations, authentication, streams, Pages(operations))
    service.http.add_middleware(_PublicApi, application=application)
    service.background("idempotency.clean", lambda: _clean(idempotency))
    return service


def _operations(
    service: Service, sender: CommandSender, idempotency: PostgresIdempotency, manager: KeyManager
) -> tuple[Operation, ...]:
    carry_out = CarryOut(sender, idempotency)
    sessions = ChangeSessions(carry_out, service.calls)
    forward = Forwarding(service.calls)
    return (
        *Agents(ChangeAgents(carry_out), forward).operations(),
        *Sessions(sessions, forward).operations(),
        *Runtime(ExecuteTurns(carry_out), sessions, forward).operations(),
        *Catalogues(forward).operations(),
        *Keys(manager, now=_now).operations(),
    )


class _PublicApi:
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
