"""Builds the gateway from its parts."""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from libs.contracts.identifiers import new_id
from libs.contracts.topics import EVENT_TOPICS, TopicKind
from libs.eventing import CommandSender
from libs.fairness import FairSemaphore
from libs.service_defaults import API, Service
from libs.service_defaults.repeating import repeat, repeat_while_busy
from services.gateway.adapters.health_http import HttpServiceHealth
from services.gateway.adapters.kafka.operations import KafkaConsumerGroups, KafkaDeadLetters
from services.gateway.adapters.postgres.expiry import ENTITIES, EXPIRIES
from services.gateway.adapters.postgres.stores import PostgresStores
from services.gateway.adapters.postgres.timeline import PostgresTimeline
from services.gateway.adapters.postgres.timeline_log import PostgresTimelineLog
from services.gateway.adapters.postgres.timeline_partitions import PostgresTimelinePartitions
from services.gateway.adapters.postgres.usage import PostgresUsage
from services.gateway.adapters.postgres.webhook_maintenance import PostgresWebhookMaintenance
from services.gateway.adapters.postgres.webhook_queue import PostgresWebhookQueue
from services.gateway.adapters.tokens import JwtTokens
from services.gateway.adapters.webhook_http import HttpWebhookClient
from services.gateway.adapters.webhook_metrics import PrometheusDeliveryMetrics
from services.gateway.entrypoints.door.metrics import SLOW_READERS
from services.gateway.entrypoints.door.routes import PREFIX
from services.gateway.entrypoints.events import TimelineEvents
from services.gateway.entrypoints.maintenance import keep_timeline, purge_usage
from services.gateway.entrypoints.public_api import Dependencies, PublicApi
from services.gateway.entrypoints.web import assets as studio_assets
from services.gateway.entrypoints.web.application import StudioApplication, to_studio, widget_script
from services.gateway.settings import GatewaySettings
from services.gateway.use_cases.webhooks.webhook_attempts import WebhookAttempts
from services.gateway.use_cases.webhooks.webhook_delivery import DeliveryTools
from services.gateway.use_cases.webhooks.webhook_maintenance import WebhookMaintenance
from services.gateway.use_cases.webhooks.webhook_worker import WebhookWorker

MIGRATIONS: Final = Path(__file__).parent / "migrations"
TIMELINE: Final = "timeline"
WEBHOOKS: Final = "webhooks"
_CLEANING_SECONDS: Final = 3600.0
_PURGE_SECONDS: Final = 60.0
_MEASURE_SECONDS: Final = 15.0


def build(settings: GatewaySettings) -> Service:
    service = _service(settings)
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
    stores = PostgresStores(
        service.database, service.outbox, connections=settings.database_pool_size, gateway_id=new_id()
    )
    api = PublicApi(_dependencies(service, settings, sender, stores))
    api.credentials.listen(sender)
    sender.on_every_event(lambda envelope, _: api.feeds.wake(envelope.company_id, envelope.id))
    sender.on_every_event(api.feeds.hear, kind=TopicKind.DELTAS)
    service.background("timeline.feeds", api.feeds.run, role=API)
    service.background("load.watch", api.load.run, role=API)
    service.background("limits.renew", api.places.run, role=API)
    service.background("limits.purge", lambda: repeat(stores.limits.purge, _PURGE_SECONDS), role=API)
    service.count_waiting(lambda: stores.idempotency.waiting)
    _serve(service, api)
    service.expire(*EXPIRIES, entities=ENTITIES)
    _fill_timeline(service, settings)
    _deliver_webhooks(service, settings)
    return service


def _service(settings: GatewaySettings) -> Service:
    # Every statement finds rows by ids. Planning a read of the timeline's 30 partitions takes longer than reading them.
    return Service("gateway", settings, migrations=MIGRATIONS, plan_once=True)


def _serve(service: Service, api: PublicApi) -> None:
    service.mount(PREFIX, api.application)
    for protocol in api.protocols:
        service.mount(protocol.prefix, protocol)
    service.mount(studio_assets.PREFIX, StudioApplication())
    service.http.add_route("/", to_studio, methods=["GET", "HEAD"], include_in_schema=False)
    service.http.add_route("/widget.js", widget_script, methods=["GET", "HEAD"], include_in_schema=False)

    async def drain() -> None:
        # What still came in would end with the process.
        service.turn_away()
        # Those who follow the timeline have no end of their own to wait for.
        api.feeds.stop()
        await api.in_flight.drain(service.seconds_to_stop() * 0.8)

    service.on_stop(drain)
    service.on_stop(api.places.close)


def _dependencies(
    service: Service, settings: GatewaySettings, sender: CommandSender, stores: PostgresStores
) -> Dependencies:
    webhook_client = HttpWebhookClient(settings.allowed_addresses())
    service.on_stop(webhook_client.close)
    operators_kafka = settings.operator_kafka()
    return Dependencies(
        keys=stores.keys,
        connections=stores.connections,
        tokens=JwtTokens(*settings.signing_keys()),
        idempotency=stores.idempotency,
        bus=sender,
        upstreams=service.calls,
        timeline=stores.timeline,
        usage=stores.usage,
        webhooks=stores.webhooks,
        webhook_client=webhook_client,
        cipher=settings.secret_cipher(),
        service_health=HttpServiceHealth(settings.replica_addresses()),
        consumer_groups=KafkaConsumerGroups(operators_kafka, settings.topic_prefix),
        dead_letters=KafkaDeadLetters(operators_kafka, settings.topic_prefix),
        shared_limits=stores.limits,
        limits=settings.limits_of_companies(),
        now=partial(datetime.now, UTC),
        monotonic=time.monotonic,
        shared_origins=settings.shared_origins(),
    )


def build_timeline(settings: GatewaySettings) -> Service:
    """A process that fills the timeline."""
    service = _service(settings)
    _fill_timeline(service, settings)
    return service


def build_webhooks(settings: GatewaySettings) -> Service:
    """A process that delivers webhooks."""
    service = _service(settings)
    _deliver_webhooks(service, settings)
    return service


def _fill_timeline(service: Service, settings: GatewaySettings) -> None:
    """Adds the work of role ``timeline``, which ``all`` has as well."""
    partitions = PostgresTimelinePartitions(service.database)
    log = PostgresTimelineLog(service.database, partitions, now=partial(datetime.now, UTC))
    topics = [topic.name for topic in EVENT_TOPICS]
    service.store_events(TIMELINE, TimelineEvents(log, service.payloads), topics, role=TIMELINE)
    service.background(
        "timeline.partitions",
        lambda: keep_timeline(partitions, partial(datetime.now, UTC), settings.timeline_days),
        role=TIMELINE,
    )
    now, keep = partial(datetime.now, UTC), timedelta(days=settings.usage_days)
    purge = partial(purge_usage, PostgresUsage(service.database), now, keep)
    service.background("usage.purge", lambda: repeat_while_busy(purge, _CLEANING_SECONDS), role=TIMELINE)


def _deliver_webhooks(service: Service, settings: GatewaySettings) -> None:
    """Adds the work of role ``webhooks``, which ``all`` has as well."""
    now, metrics = partial(datetime.now, UTC), PrometheusDeliveryMetrics()
    client, cipher = HttpWebhookClient(settings.allowed_addresses()), settings.secret_cipher()
    tools = DeliveryTools(
        queue=PostgresWebhookQueue(service.database, service.outbox, service.presence),
        timeline=PostgresTimeline(service.database),
        attempts=WebhookAttempts(client, cipher, metrics),
        permits=FairSemaphore(settings.webhook_attempts, each=max(1, settings.webhook_attempts // 8)),
        now=now,
    )
    worker = WebhookWorker(tools, new_id())
    maintenance = WebhookMaintenance(PostgresWebhookMaintenance(service.database), cipher, metrics, now)
    service.background("webhooks.lease", worker.renew, role=WEBHOOKS)
    service.background("webhooks.deliver", worker.run, role=WEBHOOKS)
    for name, action, pause in (
        ("purge", maintenance.purge, _PURGE_SECONDS),
        ("encrypt", maintenance.encrypt_anew, _CLEANING_SECONDS),
    ):
        service.background(f"webhooks.{name}", partial(repeat_while_busy, action, pause), role=WEBHOOKS)
    service.background("webhooks.measure", partial(repeat, maintenance.measure, _MEASURE_SECONDS), role=WEBHOOKS)
    service.on_stop(lambda: worker.stop(service.seconds_to_stop() * 0.8))
    service.on_stop(client.close)


def _started(sender: CommandSender) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return sender.started()

    return check
