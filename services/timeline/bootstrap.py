"""Builds the timeline's parts and connects them."""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from libs.contracts.identifiers import new_id
from libs.contracts.topics import EVENT_TOPICS
from libs.eventing import EntityTable
from libs.fairness import FairSemaphore
from libs.service_defaults import Service
from libs.service_defaults.repeating import repeat, repeat_while_busy
from services.timeline.adapters.postgres.expiry import EXPIRIES
from services.timeline.adapters.postgres.log import PostgresTimelineLog
from services.timeline.adapters.postgres.partitions import PostgresTimelinePartitions
from services.timeline.adapters.postgres.timeline import PostgresTimeline
from services.timeline.adapters.postgres.usage import PostgresUsage
from services.timeline.adapters.postgres.webhook_maintenance import PostgresWebhookMaintenance
from services.timeline.adapters.postgres.webhook_queue import PostgresWebhookQueue
from services.timeline.adapters.postgres.webhooks import PostgresWebhookReader, PostgresWebhookWriter
from services.timeline.adapters.webhook_http import HttpWebhookClient
from services.timeline.entrypoints.events import follow_keys
from services.timeline.entrypoints.log import TimelineEvents
from services.timeline.entrypoints.resources.events import serve_events
from services.timeline.entrypoints.resources.usage import serve_usage
from services.timeline.entrypoints.resources.webhooks import serve_webhooks
from services.timeline.settings import TimelineSettings
from services.timeline.use_cases.delivering.attempts import WebhookAttempts
from services.timeline.use_cases.delivering.delivery import DeliveryTools
from services.timeline.use_cases.delivering.maintenance import WebhookMaintenance
from services.timeline.use_cases.delivering.worker import WebhookWorker
from services.timeline.use_cases.webhooks import Webhooks

MIGRATIONS: Final = Path(__file__).parent / "migrations"
ENTITIES: Final = (EntityTable("webhooks", is_uuid=True),)
"""The tables that contain the subjects of the service's events."""
LOG: Final = "log"
WEBHOOKS: Final = "webhooks"
_CLEANING_SECONDS: Final = 3600.0
_PARTITIONS_SECONDS: Final = 600.0
_PURGE_SECONDS: Final = 60.0
_PURGED_HOURS: Final = 5000
_MEASURE_SECONDS: Final = 15.0
_now: Final = partial(datetime.now, UTC)


def build(settings: TimelineSettings) -> Service:
    """Builds the whole service for the roles ``api`` and ``all``."""
    service = _service(settings)
    serve_events(service.http, PostgresTimeline(service.database))
    serve_usage(service.http, PostgresUsage(service.database))
    service.expire(*EXPIRIES, entities=ENTITIES)
    _fill_log(service, settings)
    _serve_webhooks(service, settings)
    return service


def build_log(settings: TimelineSettings) -> Service:
    """Builds the service for the role ``log``, which stores events in the timeline."""
    service = _service(settings)
    _fill_log(service, settings)
    return service


def build_webhooks(settings: TimelineSettings) -> Service:
    """Builds the service for the role ``webhooks``, which handles webhooks' commands and delivers events."""
    service = _service(settings)
    _serve_webhooks(service, settings)
    return service


def _service(settings: TimelineSettings) -> Service:
    # Every statement finds rows by ID, and planning a read of the 30 partitions takes longer than the read itself.
    return Service("timeline", settings, migrations=MIGRATIONS, plan_once=True, worker=WEBHOOKS)


def _fill_log(service: Service, settings: TimelineSettings) -> None:
    partitions = PostgresTimelinePartitions(service.database)
    log = PostgresTimelineLog(service.database, partitions, now=_now)
    topics = [topic.name for topic in EVENT_TOPICS]
    service.store_events(LOG, TimelineEvents(log, service.payloads), topics, role=LOG)
    usage = PostgresUsage(service.database)

    async def keep_partitions() -> None:
        await partitions.keep(_now().date(), settings.days)

    async def purge_usage() -> int:
        return await usage.purge(_now() - timedelta(days=settings.usage_days), limit=_PURGED_HOURS)

    service.background("log.partitions", partial(repeat, keep_partitions, _PARTITIONS_SECONDS), role=LOG)
    service.background("usage.purge", partial(repeat_while_busy, purge_usage, _CLEANING_SECONDS), role=LOG)


def _serve_webhooks(service: Service, settings: TimelineSettings) -> None:
    """Serves reads of webhooks. Commands, key events and deliveries are handled in the role ``webhooks``."""
    cipher = settings.secret_cipher()
    client = HttpWebhookClient(settings.allowed_addresses())
    webhooks = Webhooks(PostgresWebhookReader(service.database), PostgresWebhookWriter, client, _now)
    serve_webhooks(service.commands, service.http, webhooks)
    follow_keys(service.follow("keys"), webhooks)
    tools = DeliveryTools(
        queue=PostgresWebhookQueue(service.database, service.outbox, service.presence),
        timeline=PostgresTimeline(service.database),
        attempts=WebhookAttempts(client, cipher),
        permits=FairSemaphore(settings.webhook_attempts, each=max(1, settings.webhook_attempts // 8)),
        now=_now,
    )
    worker = WebhookWorker(tools, new_id())
    maintenance = WebhookMaintenance(PostgresWebhookMaintenance(service.database), cipher, _now)
    service.background("webhooks.lease", worker.renew, role=WEBHOOKS)
    service.background("webhooks.deliver", worker.run, role=WEBHOOKS)
    for name, action, pause in (
        ("purge", maintenance.purge, _PURGE_SECONDS),
        ("encrypt", maintenance.reencrypt, _CLEANING_SECONDS),
    ):
        service.background(f"webhooks.{name}", partial(repeat_while_busy, action, pause), role=WEBHOOKS)
    service.background("webhooks.measure", partial(repeat, maintenance.measure, _MEASURE_SECONDS), role=WEBHOOKS)
    service.on_stop(lambda: worker.stop(service.seconds_to_stop() * 0.8))
    service.on_stop(client.close)
