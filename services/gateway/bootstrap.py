"""Builds the gateway from its parts."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from libs.contracts.events.gateway import ApiKeyRevoked, ConnectionDeleted
from libs.contracts.events.registry import AgentCreated, AgentDeleted, AgentUpdated
from libs.contracts.identifiers import new_id
from libs.contracts.messages import Envelope
from libs.contracts.topics import EVENT_TOPICS, TopicKind
from libs.eventing import CommandSender
from libs.fairness import FairSemaphore
from libs.quotas import CompanyLimits
from libs.secrets import SecretCipher
from libs.service_defaults import API, Service, UpstreamClient
from libs.service_defaults.repeating import repeat, repeat_while_busy
from services.gateway.adapters.health_http import HttpServiceHealth
from services.gateway.adapters.kafka.operations import KafkaConsumerGroups, KafkaDeadLetters
from services.gateway.adapters.postgres.connections import PostgresConnections
from services.gateway.adapters.postgres.expiry import ENTITIES, EXPIRIES
from services.gateway.adapters.postgres.idempotency import PostgresIdempotency
from services.gateway.adapters.postgres.keys import PostgresKeys
from services.gateway.adapters.postgres.limits import PostgresSharedLimits
from services.gateway.adapters.postgres.timeline import PostgresTimeline
from services.gateway.adapters.postgres.timeline_log import PostgresTimelineLog
from services.gateway.adapters.postgres.timeline_partitions import PostgresTimelinePartitions
from services.gateway.adapters.postgres.usage import PostgresUsage
from services.gateway.adapters.postgres.webhook_maintenance import PostgresWebhookMaintenance
from services.gateway.adapters.postgres.webhook_queue import PostgresWebhookQueue
from services.gateway.adapters.postgres.webhooks import PostgresWebhooks
from services.gateway.adapters.tokens import JwtTokens
from services.gateway.adapters.webhook_http import HttpWebhookClient
from services.gateway.adapters.webhook_metrics import PrometheusDeliveryMetrics
from services.gateway.domain.limits import SharedLimits
from services.gateway.domain.load_shedding import LoadShedding
from services.gateway.domain.ports import (
    ConnectionStore,
    IdempotencyStore,
    KeyStore,
    Timeline,
    TokenCodec,
)
from services.gateway.domain.usage import UsageStore
from services.gateway.domain.webhook_ports import WebhookClient, WebhookStore
from services.gateway.entrypoints.a2a.application import A2AApplication
from services.gateway.entrypoints.ag_ui.application import AGUIApplication
from services.gateway.entrypoints.door.answers import Owners
from services.gateway.entrypoints.door.application import ProtocolApplication, PublicEdge
from services.gateway.entrypoints.door.callers import Authentication
from services.gateway.entrypoints.door.door import Door
from services.gateway.entrypoints.door.lifecycle import InFlightRequests
from services.gateway.entrypoints.door.metrics import SHED, SLOW_READERS
from services.gateway.entrypoints.door.routes import PREFIX
from services.gateway.entrypoints.door.streams import EventStreams
from services.gateway.entrypoints.door.transfer_proxy import TransferProxy
from services.gateway.entrypoints.events import TimelineEvents
from services.gateway.entrypoints.maintenance import keep_timeline, purge_usage
from services.gateway.entrypoints.mcp.application import McpApplication
from services.gateway.entrypoints.openai.application import OpenAIApplication
from services.gateway.entrypoints.rest.application import PublicApplication
from services.gateway.entrypoints.rest.resources import Resources
from services.gateway.entrypoints.web import assets as studio_assets
from services.gateway.entrypoints.web.application import StudioApplication, to_studio, widget_script
from services.gateway.settings import GatewaySettings
from services.gateway.use_cases.agents import Agents
from services.gateway.use_cases.budgets import Budgets
from services.gateway.use_cases.command_dispatcher import CommandDispatcher
from services.gateway.use_cases.company_timeline import CompanyTimeline
from services.gateway.use_cases.connections import Connections
from services.gateway.use_cases.dead_letters import DeadLetterBox, VisibleDeadLetters
from services.gateway.use_cases.failures import Failures
from services.gateway.use_cases.health import ConsumerGroups, Health, ServiceHealth
from services.gateway.use_cases.keys import Keys
from services.gateway.use_cases.limits import Limits
from services.gateway.use_cases.places import StreamPlaces
from services.gateway.use_cases.principals import Principals
from services.gateway.use_cases.rates import Rates
from services.gateway.use_cases.secrets import Secrets
from services.gateway.use_cases.sessions import Sessions
from services.gateway.use_cases.shed_load import ShedLoad
from services.gateway.use_cases.timeline.session_texts import SessionTexts
from services.gateway.use_cases.timeline.timeline_feeds import TimelineFeeds
from services.gateway.use_cases.turn_history import TurnHistory
from services.gateway.use_cases.turns import Turns
from services.gateway.use_cases.webhooks.webhook_attempts import WebhookAttempts
from services.gateway.use_cases.webhooks.webhook_delivery import DeliveryTools
from services.gateway.use_cases.webhooks.webhook_maintenance import WebhookMaintenance
from services.gateway.use_cases.webhooks.webhook_worker import WebhookWorker
from services.gateway.use_cases.webhooks.webhooks import Webhooks

MIGRATIONS: Final = Path(__file__).parent / "migrations"
TIMELINE: Final = "timeline"
WEBHOOKS: Final = "webhooks"
PROTOCOLS: Final[tuple[Callable[[PublicEdge], ProtocolApplication], ...]] = (
    OpenAIApplication,
    A2AApplication,
    AGUIApplication,
    McpApplication,
)
"""Applications at the root of the server, beside the public API."""
_CLEANING_SECONDS: Final = 3600.0
_PURGE_SECONDS: Final = 60.0
_MEASURE_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """Outside parts of the public API, real or fake."""

    keys: KeyStore
    connections: ConnectionStore
    tokens: TokenCodec
    idempotency: IdempotencyStore
    bus: CommandSender
    upstreams: UpstreamClient
    timeline: Timeline
    usage: UsageStore
    webhooks: WebhookStore
    webhook_client: WebhookClient
    cipher: SecretCipher | None
    service_health: ServiceHealth
    consumer_groups: ConsumerGroups
    dead_letters: DeadLetterBox
    shared_limits: SharedLimits
    limits: CompanyLimits
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    shared_origins: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PublicApi:
    """The application, and what it is told of credentials, by their ids; an agent is one for its public key.

    ``revoked``: it ended, and what is under way with it as well. ``changed``: it has to be looked up anew.
    """

    application: PublicApplication
    protocols: Sequence[ProtocolApplication]
    in_flight: InFlightRequests
    feeds: TimelineFeeds
    texts: SessionTexts
    places: StreamPlaces
    load: ShedLoad
    revoked: Callable[[str], None]
    withdrawn: Callable[[str], None]
    changed: Callable[[str], None]


def assemble(outside: Dependencies) -> PublicApi:
    """The public API on top of real or fake dependencies."""
    principals = Principals(
        outside.keys,
        outside.connections,
        outside.tokens,
        outside.upstreams,
        fresh=outside.bus.fresh,
        now=outside.now,
        monotonic=outside.monotonic,
    )
    rates = Rates(outside.shared_limits, outside.limits, outside.monotonic)
    places = StreamPlaces(outside.shared_limits, outside.limits)
    load = ShedLoad(LoadShedding(), on_refused=SHED.inc)
    streams = EventStreams(outside.now, places)
    texts = SessionTexts()
    feeds = TimelineFeeds(outside.timeline, now=outside.now, monotonic=outside.monotonic, on_slow=SLOW_READERS.inc)

    agents = Agents(outside.upstreams, outside.bus.fresh, outside.monotonic)

    def forget(identifier: str) -> None:
        principals.forget(identifier)
        agents.forget(identifier)

    def revoked(identifier: str) -> None:
        forget(identifier)
        streams.refuse(identifier)

    def withdrawn(identifier: str) -> None:
        forget(identifier)
        streams.end(identifier)

    authentication = Authentication(principals, rates, load)
    in_flight = InFlightRequests()
    history = TurnHistory(outside.timeline, outside.upstreams)
    door = _door_of(outside, agents, streams, history, rates)
    edge = PublicEdge(
        authentication=authentication,
        door=door,
        upstreams=outside.upstreams,
        in_flight=in_flight,
        shared_origins=outside.shared_origins,
    )
    timeline = CompanyTimeline(outside.timeline, feeds, texts, history)
    resources = _resources_of(outside, door.commands, timeline, forget)
    protocols = [make(edge) for make in PROTOCOLS]
    return PublicApi(
        PublicApplication(edge, resources),
        protocols,
        in_flight,
        feeds,
        texts,
        places,
        load,
        revoked,
        withdrawn,
        forget,
    )


def _door_of(outside: Dependencies, agents: Agents, streams: EventStreams, history: TurnHistory, rates: Rates) -> Door:
    commands = CommandDispatcher(outside.bus, outside.idempotency, outside.upstreams.installed, rates)
    return Door(
        commands=commands,
        agents=agents,
        sessions=Sessions(commands, agents, outside.upstreams),
        turns=Turns(outside.bus, commands, outside.idempotency, outside.upstreams, history),
        owners=Owners(outside.upstreams),
        streams=streams,
        transfers=TransferProxy(outside.upstreams),
    )


def _resources_of(
    outside: Dependencies, commands: CommandDispatcher, timeline: CompanyTimeline, forget: Callable[[str], None]
) -> Resources:
    now, upstreams = outside.now, outside.upstreams
    return Resources(
        timeline=timeline,
        keys=Keys(outside.keys, now, outside.limits, forget),
        tokens=outside.tokens,
        connections=Connections(outside.connections, upstreams, now, forget),
        webhooks=Webhooks(outside.webhooks, outside.webhook_client, outside.cipher, now),
        secrets=Secrets(commands, outside.cipher),
        budgets=Budgets(commands, outside.keys, outside.usage, now),
        limits=Limits(outside.limits, outside.shared_limits, outside.keys, upstreams),
        usage=outside.usage,
        health=Health(outside.service_health, outside.consumer_groups, now, outside.monotonic),
        dead_letters=VisibleDeadLetters(outside.dead_letters, outside.monotonic),
        failures=Failures(upstreams),
        now=now,
    )


def build(settings: GatewaySettings) -> Service:
    # Every statement finds rows by ids. Planning a read of the timeline's 30 partitions takes longer than reading them.
    service = Service("gateway", settings, migrations=MIGRATIONS, plan_once=True)
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
    shared_limits = PostgresSharedLimits(service.database, gateway_id=new_id())
    api = assemble(_dependencies(service, settings, sender, shared_limits))
    listen(sender, api)
    sender.on_every_event(lambda envelope, _: api.feeds.wake(envelope.company_id, envelope.id))
    sender.on_every_event(api.texts.hear, kind=TopicKind.DELTAS)
    service.background("timeline.feeds", api.feeds.run, role=API)
    service.ready_check("events", _started(sender))
    service.mount(PREFIX, api.application)
    for protocol in api.protocols:
        service.mount(protocol.prefix, protocol)
    service.mount(studio_assets.PREFIX, StudioApplication())
    service.http.add_route("/", to_studio, methods=["GET", "HEAD"], include_in_schema=False)
    service.http.add_route("/widget.js", widget_script, methods=["GET", "HEAD"], include_in_schema=False)
    _drain(service, api)
    _share_limits(service, api, shared_limits)
    service.expire(*EXPIRIES, entities=ENTITIES)
    _fill_timeline(service, settings)
    _deliver_webhooks(service, settings)
    return service


def _drain(service: Service, api: PublicApi) -> None:
    async def drain() -> None:
        # What still came in would end with the process.
        service.turn_away()
        # Those who follow the timeline have no end of their own to wait for.
        api.feeds.stop()
        await api.in_flight.drain(service.seconds_to_stop() * 0.8)

    service.on_stop(drain)


def _share_limits(service: Service, api: PublicApi, shared: PostgresSharedLimits) -> None:
    service.background("load.watch", api.load.run, role=API)
    service.background("limits.renew", api.places.run, role=API)
    service.background("limits.purge", lambda: repeat(shared.purge, _PURGE_SECONDS), role=API)
    service.on_stop(api.places.close)


def _dependencies(
    service: Service, settings: GatewaySettings, sender: CommandSender, shared_limits: SharedLimits
) -> Dependencies:
    webhook_client = HttpWebhookClient(settings.allowed_addresses())
    service.on_stop(webhook_client.close)
    operators_kafka = settings.operator_kafka()
    # Some connections are left to readers and to the processes of all.
    idempotency = PostgresIdempotency(service.database, connections=max(settings.database_pool_size - 2, 1))
    service.count_waiting(lambda: idempotency.waiting)
    return Dependencies(
        keys=PostgresKeys(service.database, service.outbox),
        connections=PostgresConnections(service.database, service.outbox),
        tokens=JwtTokens(*settings.signing_keys()),
        idempotency=idempotency,
        bus=sender,
        upstreams=service.calls,
        timeline=PostgresTimeline(service.database),
        usage=PostgresUsage(service.database),
        webhooks=PostgresWebhooks(service.database, service.outbox),
        webhook_client=webhook_client,
        cipher=settings.secret_cipher(),
        service_health=HttpServiceHealth(settings.replica_addresses()),
        consumer_groups=KafkaConsumerGroups(operators_kafka, settings.topic_prefix),
        dead_letters=KafkaDeadLetters(operators_kafka, settings.topic_prefix),
        shared_limits=shared_limits,
        limits=settings.limits_of_companies(),
        now=partial(datetime.now, UTC),
        monotonic=time.monotonic,
        shared_origins=settings.shared_origins(),
    )


def build_timeline(settings: GatewaySettings) -> Service:
    """A process that fills the timeline."""
    service = Service("gateway", settings, migrations=MIGRATIONS, plan_once=True)
    _fill_timeline(service, settings)
    return service


def build_webhooks(settings: GatewaySettings) -> Service:
    """A process that delivers webhooks."""
    service = Service("gateway", settings, migrations=MIGRATIONS, plan_once=True)
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


def listen(sender: CommandSender, api: PublicApi) -> None:
    """Tell the public API what becomes of credentials; each such event's subject is the credential's id."""

    def revoked(envelope: Envelope, _: bytes) -> None:
        api.revoked(envelope.subject)

    def made(envelope: Envelope, _: bytes) -> None:
        # A page may have asked for an agent's key before there was the agent.
        api.changed(envelope.subject)

    def changed(envelope: Envelope, payload: bytes) -> None:
        agent = AgentUpdated.decode(payload).agent
        usable = agent.is_public and agent.allowed_origins
        (api.changed if usable else api.withdrawn)(envelope.subject)

    for event in (ApiKeyRevoked, ConnectionDeleted, AgentDeleted):
        sender.on_event(event.TYPE, revoked)
    sender.on_event(AgentCreated.TYPE, made)
    sender.on_event(AgentUpdated.TYPE, changed)


def _started(sender: CommandSender) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return sender.started()

    return check
