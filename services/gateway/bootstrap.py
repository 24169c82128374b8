"""Builds the gateway's parts and connects them."""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from libs.contracts.identifiers import new_id
from libs.contracts.topics import TopicKind
from libs.eventing import CommandSender, EntityTable
from libs.eventing.dead_letters import open_dead_letters
from libs.eventing.lag import read_consumer_lag
from libs.service_defaults import API, Service
from libs.service_defaults.repeating import repeat
from services.gateway.adapters.health_http import read_replicas
from services.gateway.adapters.postgres.connections import PostgresConnections
from services.gateway.adapters.postgres.expiry import EXPIRIES
from services.gateway.adapters.postgres.idempotency import PostgresIdempotency
from services.gateway.adapters.postgres.keys import PostgresKeys
from services.gateway.adapters.postgres.limits import PostgresSharedLimits
from services.gateway.adapters.timeline_http import HttpTimeline
from services.gateway.domain.tokens import JwtTokens
from services.gateway.entrypoints.door.metrics import SLOW_READERS
from services.gateway.entrypoints.door.routes import PREFIX
from services.gateway.entrypoints.public_api import Dependencies, PublicApi
from services.gateway.entrypoints.web.application import StudioApplication, to_studio, widget_script
from services.gateway.settings import GatewaySettings
from web import assets as studio_assets

MIGRATIONS: Final = Path(__file__).parent / "migrations"
ENTITIES: Final = tuple(EntityTable(table, is_uuid=True) for table in ("api_keys", "connections"))
"""The tables of the entities that the service's events describe."""
_PURGE_SECONDS: Final = 60.0
_OPERATIONS: Final = "aes-gateway-operations"


def build(settings: GatewaySettings) -> Service:
    service = Service("gateway", settings, migrations=MIGRATIONS)
    sender = CommandSender(
        service.bus,
        service.producer,
        service.signer,
        service.calls.command_state,
        service.payloads,
        source=service.source,
        on_overflow=SLOW_READERS.inc,
    )
    for number, reader in enumerate(sender.readers):
        service.background(f"events.read.{number}", reader.run, role=API)
    service.ready_check("events", _started(sender))
    # Leaves connections for reads and for background work.
    idempotency = PostgresIdempotency(service.database, connections=max(settings.database_pool_size - 2, 1))
    limits = PostgresSharedLimits(service.database, gateway_id=new_id())
    api = PublicApi(_dependencies(service, settings, sender, idempotency, limits))
    api.credentials.listen(sender)
    sender.on_every_event(api.feeds.wake)
    sender.on_every_event(api.feeds.pass_text, kind=TopicKind.DELTAS)
    service.background("timeline.feeds", api.feeds.run, role=API)
    service.background("load.watch", api.load.run, role=API)
    service.background("limits.renew", api.stream_slots.run, role=API)
    service.background("limits.purge", lambda: repeat(limits.purge, _PURGE_SECONDS), role=API)
    service.count_waiting(lambda: idempotency.waiting)
    _serve(service, api)
    service.expire(*EXPIRIES, entities=ENTITIES)
    return service


def _serve(service: Service, api: PublicApi) -> None:
    service.mount(PREFIX, api.application)
    for protocol in api.protocols:
        service.mount(protocol.prefix, protocol)
    service.mount(studio_assets.PREFIX, StudioApplication())
    service.http.add_route("/", to_studio, methods=["GET", "HEAD"], include_in_schema=False)
    service.http.add_route("/widget.js", widget_script, methods=["GET", "HEAD"], include_in_schema=False)

    async def drain() -> None:
        # A request accepted after this point would be cut off when the process exits.
        service.stop_accepting()
        # Timeline streams never end on their own, so there's no point in waiting for them.
        api.feeds.stop()
        await api.in_flight.drain(service.seconds_to_stop() * 0.8)

    service.on_stop(drain)
    service.on_stop(api.stream_slots.close)


def _dependencies(
    service: Service,
    settings: GatewaySettings,
    sender: CommandSender,
    idempotency: PostgresIdempotency,
    limits: PostgresSharedLimits,
) -> Dependencies:
    kafka, prefix = settings.operator_kafka(), settings.topic_prefix
    return Dependencies(
        keys=PostgresKeys(service.database, service.outbox),
        connections=PostgresConnections(service.database, service.outbox),
        tokens=JwtTokens(*settings.signing_keys()),
        idempotency=idempotency,
        bus=sender,
        upstreams=service.calls,
        timeline=HttpTimeline(service.calls),
        cipher=settings.secret_cipher(),
        read_replicas=partial(read_replicas, settings.replica_addresses()),
        read_lag=partial(read_consumer_lag, kafka, prefix, client_id=_OPERATIONS),
        open_dead_letters=partial(open_dead_letters, kafka, prefix, client_id=_OPERATIONS),
        shared_limits=limits,
        limits=settings.limits_of_companies(),
        now=partial(datetime.now, UTC),
        monotonic=time.monotonic,
        shared_origins=settings.shared_origins(),
    )


def _started(sender: CommandSender) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return sender.started()

    return check
