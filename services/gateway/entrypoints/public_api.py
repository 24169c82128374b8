"""Builds the public API and the other protocols."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from libs.eventing import CommandSender
from libs.quotas import CompanyLimits
from libs.secrets import SecretCipher
from libs.service_defaults import UpstreamClient
from services.gateway.domain.limits import SharedLimits
from services.gateway.domain.ports import ConnectionStore, IdempotencyStore, KeyStore, Timeline
from services.gateway.domain.tokens import JwtTokens
from services.gateway.entrypoints.a2a.application import A2AApplication
from services.gateway.entrypoints.ag_ui.application import AGUIApplication
from services.gateway.entrypoints.credentials import Credentials
from services.gateway.entrypoints.door.answers import UpstreamReplies
from services.gateway.entrypoints.door.application import Door, ProtocolApplication
from services.gateway.entrypoints.door.callers import Authentication
from services.gateway.entrypoints.door.image_bodies import LargeBodies
from services.gateway.entrypoints.door.lifecycle import InFlightRequests
from services.gateway.entrypoints.door.metrics import SHED, SLOW_READERS
from services.gateway.entrypoints.door.streams import EventStreams
from services.gateway.entrypoints.door.transfer_proxy import TransferProxy
from services.gateway.entrypoints.mcp.application import McpApplication
from services.gateway.entrypoints.openai.application import OpenAIApplication
from services.gateway.entrypoints.rest.application import PublicApplication
from services.gateway.entrypoints.rest.resources import Resources
from services.gateway.use_cases.agents import Agents
from services.gateway.use_cases.budgets import Budgets
from services.gateway.use_cases.command_dispatcher import CommandDispatcher
from services.gateway.use_cases.connections import Connections
from services.gateway.use_cases.dead_letters import OpenDeadLetters, VisibleDeadLetters
from services.gateway.use_cases.health import Health, ReadLag, ReadReplicas
from services.gateway.use_cases.image_uploads import ImageUploads
from services.gateway.use_cases.keys import Keys
from services.gateway.use_cases.limits import Limits
from services.gateway.use_cases.load_shedding import LoadShedding
from services.gateway.use_cases.principals import Principals
from services.gateway.use_cases.rates import Rates
from services.gateway.use_cases.reading.event_reader import EventReader
from services.gateway.use_cases.reading.feeds import Feeds
from services.gateway.use_cases.secrets import Secrets
from services.gateway.use_cases.sessions import Sessions
from services.gateway.use_cases.stream_slots import StreamSlots
from services.gateway.use_cases.turns import Turns
from services.gateway.use_cases.webhooks import Webhooks

PROTOCOLS: Final[tuple[Callable[[Door], ProtocolApplication], ...]] = (
    OpenAIApplication,
    A2AApplication,
    AGUIApplication,
    McpApplication,
)
"""The other protocols, which are mounted at the server's root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """The stores, clients and clocks of the public API. Tests replace them."""

    keys: KeyStore
    connections: ConnectionStore
    tokens: JwtTokens
    idempotency: IdempotencyStore
    bus: CommandSender
    upstreams: UpstreamClient
    timeline: Timeline
    cipher: SecretCipher | None
    read_replicas: ReadReplicas
    read_lag: ReadLag
    open_dead_letters: OpenDeadLetters
    shared_limits: SharedLimits
    limits: CompanyLimits
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    shared_origins: frozenset[str] = frozenset()


class PublicApi:
    """The gateway's APIs. ``application`` serves ``/api/v1``."""

    def __init__(self, outside: Dependencies) -> None:
        now, monotonic, upstreams, limits = outside.now, outside.monotonic, outside.upstreams, outside.limits
        fresh = outside.bus.fresh
        stores = (outside.keys, outside.connections, outside.tokens)
        principals = Principals(*stores, upstreams, fresh=fresh, now=now, monotonic=monotonic)
        agents = Agents(upstreams, fresh, monotonic)
        rates = Rates(outside.shared_limits, limits, monotonic)
        commands = CommandDispatcher(outside.bus, outside.idempotency, upstreams.installed, rates)
        self.load = LoadShedding(on_refused=SHED.inc)
        self.stream_slots = StreamSlots(outside.shared_limits, limits)
        self.feeds = Feeds(outside.timeline, monotonic=monotonic, on_overflow=SLOW_READERS.inc)
        reader = EventReader(outside.bus, outside.timeline, self.feeds, upstreams)
        self.in_flight = InFlightRequests()
        images = ImageUploads(upstreams)
        sessions = Sessions(commands, agents, upstreams, images)
        door = Door(
            authentication=Authentication(principals, rates, self.load),
            in_flight=self.in_flight,
            shared_origins=outside.shared_origins,
            commands=commands,
            agents=agents,
            sessions=sessions,
            turns=Turns(commands, outside.idempotency, upstreams, reader, sessions, images),
            reader=reader,
            owners=UpstreamReplies(upstreams),
            streams=EventStreams(now, self.stream_slots),
            transfers=TransferProxy(upstreams),
            large_bodies=LargeBodies(),
        )
        self.credentials = Credentials(principals, agents, door.streams)
        resources = Resources(
            keys=Keys(outside.keys, now, limits, self.credentials.changed),
            tokens=outside.tokens,
            connections=Connections(outside.connections, agents, upstreams, now, self.credentials.changed),
            webhooks=Webhooks(commands, outside.cipher),
            secrets=Secrets(commands, outside.cipher),
            budgets=Budgets(outside.keys, upstreams, now),
            limits=Limits(limits, outside.shared_limits, outside.keys, upstreams),
            health=Health(outside.read_replicas, outside.read_lag, upstreams, now, monotonic),
            dead_letters=VisibleDeadLetters(outside.open_dead_letters, monotonic),
            now=now,
        )
        self.application = PublicApplication(door, resources)
        self.protocols: Sequence[ProtocolApplication] = [make(door) for make in PROTOCOLS]
