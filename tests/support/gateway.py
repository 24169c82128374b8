"""The gateway's public API on fakes: a bus with scripted upstreams, credentials in memory."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Protocol

import httpx
import orjson

from libs.contracts.errors import ErrorInfo, ErrorKind, ServiceUnavailable
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Command, CommandRejected, Envelope, Event, Received, public_name
from libs.contracts.resources.turns import OutputTextDelta, OutputTextDone, Turn, WatchedTurn
from libs.contracts.timestamps import now_text
from libs.eventing import LookUp, Replies, ReplyState
from libs.quotas import CompanyLimits
from libs.secrets import SecretCipher
from libs.service_defaults import UpstreamClient, UpstreamResponse, UpstreamStream
from libs.service_defaults.internal_routes import encode_events
from services.gateway.domain.accounts import ApiKey
from services.gateway.domain.tokens import JwtTokens
from services.gateway.entrypoints.public_api import Dependencies, PublicApi
from tests.support.company_limits import NO_LIMITS, FakeSharedLimits, FakeSharedState
from tests.support.gateway_stores import FakeConnections, FakeIdempotency, FakeKeys
from tests.support.operations import FakeConsumerGroups, FakeDeadLetters, FakeServiceHealth
from tests.support.timeline import FakeTimeline
from tests.support.timeline_service import TimelineService
from tests.support.usage import FakeUsage
from tests.support.waiting import until
from tests.support.webhook_fakes import CIPHER, FakeEndpoints, FakeWebhooks

_STATUS_AFTER = {
    "turn.started": "running",
    "turn.action_required": "waiting",
    "turn.completed": "completed",
    "turn.failed": "failed",
    "turn.cancelled": "cancelled",
}


class Clock:
    """Stands still until told otherwise."""

    def __init__(self) -> None:
        self.moment = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.moment.timestamp()

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@dataclass
class Sent:
    """A command as the upstream sees it."""

    command: Command
    command_id: str
    correlation_id: str
    identity: Identity
    traceparent: str | None
    subject: str = ""


class Owner(Protocol):
    """A service, or a part of it, in this process."""

    async def answer(
        self, method: str, path: str, identity: Identity, params: dict[str, Any] | None, body: bytes | None, /
    ) -> UpstreamResponse: ...

    async def dispatch(self, command: Command, command_id: str, correlation_id: str, identity: Identity, /) -> Event:
        """Returns the command's terminal event."""


@dataclass
class FakeBus:
    """``upstream`` answers each command with events; what it answered before is found again by the look-up."""

    upstream: Callable[[Sent], Iterable[Event]] = lambda _: ()
    sent: list[Sent] = field(default_factory=list)
    down: bool = False
    is_fresh: bool = True
    recorded: dict[str, list[Received]] = field(default_factory=dict)
    texts: dict[str, dict[int, str]] = field(default_factory=dict)
    watched: list[str] = field(default_factory=list)
    waiters: dict[str, set[Replies]] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    outcomes: dict[str, Received] = field(default_factory=dict)
    deleted: int = 0
    """Recorded events up to this sequence are not kept any more."""
    owners: dict[str, Owner] = field(default_factory=dict)
    """Services by name that carry out commands which ``upstream`` leaves alone, and answer reads."""

    def fresh(self) -> bool:
        return self.is_fresh

    @asynccontextmanager
    async def replies(self, command_id: str, command: type[Command], identity: Identity) -> AsyncIterator[Replies]:
        replies = Replies(command, command_id, identity, self._ask, None)  # type: ignore[arg-type]
        self.waiters.setdefault(command_id, set()).add(replies)
        try:
            yield replies
        finally:
            self.waiters[command_id].discard(replies)
            if not self.waiters[command_id]:
                del self.waiters[command_id]

    async def _ask(self, upstream: str, command_id: str, identity: Identity) -> LookUp:
        if (outcome := self.outcomes.get(command_id)) is not None:
            return LookUp(ReplyState.ANSWERED, outcome)
        return LookUp(ReplyState.ACCEPTED if command_id in self.known else ReplyState.WAITING)

    async def send(
        self,
        command: Command,
        *,
        subject: str,
        command_id: str,
        correlation_id: str,
        identity: Identity,
        expires_in: float,
        traceparent: str | None = None,
    ) -> None:
        if self.down:
            raise ServiceUnavailable("The message bus is unavailable. Nothing was changed.", retry_after=2)
        sent = Sent(command, command_id, correlation_id, identity, traceparent, subject)
        self.sent.append(sent)
        events = list(self.upstream(sent))
        if not events and (owner := self.owners.get(command.TOPIC.owner)) is not None:
            events.append(await owner.dispatch(command, command_id, correlation_id, identity))
        for event in events:
            self.publish(sent, event)

    def publish(self, sent: Sent, event: Event) -> None:
        """An event caused by a command reaches whoever waits for it."""
        received = self.lose(sent, event)
        for waiter in self.waiters.get(sent.command_id, ()):
            waiter.arrive(received)

    def lose(self, sent: Sent, event: Event) -> Received:
        """An event that its upstream records and that reaches nobody."""
        command = type(sent.command)
        event_type = command.rejected_type() if isinstance(event, CommandRejected) else event.TYPE
        recorded = self.recorded.setdefault(sent.command_id, [])
        is_delta = isinstance(event, OutputTextDelta | OutputTextDone)
        envelope = Envelope(
            id=new_id(),
            type=event_type,
            source="/aes/fake",
            subject=sent.command_id,
            time=now_text(),
            correlation_id=sent.correlation_id,
            company_id=sent.identity.company_id,
            causation_id=sent.command_id,
            # A delta's is that of the event that it follows.
            sequence=len(recorded) + (not is_delta),
        )
        received = Received(envelope, event.encode())
        if not is_delta:
            recorded.append(received)
        self.known.add(sent.command_id)
        if event_type in command.outcome_types():
            self.outcomes[sent.command_id] = received
        return received

    def turn(self, path: str, params: dict[str, Any] | None) -> UpstreamResponse | None:
        """The runtime's answers about a turn for those who follow it; None for any other path."""
        *_, turn_id, asked = path.split("/")
        if asked in self.recorded and turn_id == "turns":
            return UpstreamResponse(200, self.state(asked).model_dump_json().encode(), "application/json")
        if asked not in ("watch", "events") or turn_id not in self.recorded:
            return None
        recorded = self.recorded[turn_id]
        if asked == "events":
            after = max((params or {})["after"], self.deleted)
            missed = [event for event in recorded if event.envelope.sequence > after]
            return UpstreamResponse(200, encode_events(missed), "application/octet-stream")
        self.watched.append(turn_id)
        status = self.state(turn_id).status
        turn = WatchedTurn(status=status, sequence=len(recorded), texts=self.texts.get(turn_id, {}))
        return UpstreamResponse(200, turn.model_dump_json().encode(), "application/json")

    def state(self, turn_id: str) -> Turn:
        """The turn as its events tell it."""
        status, actions = "queued", dict[str, Any]()
        blocked_by = None
        for event in self.recorded[turn_id]:
            name, payload = public_name(event.envelope.type), orjson.loads(event.payload)
            status = _STATUS_AFTER.get(name, status)
            blocked_by = payload.get("blocked_by")
            if name == "turn.action_required":
                actions[payload["action"]["action_id"]] = payload["action"]
            if name == "turn.action_resolved":
                actions.pop(payload["action_id"])
                status = status if actions else "running"
        return Turn.model_validate(
            {
                "turn_id": turn_id,
                "session_id": orjson.loads(self.recorded[turn_id][0].payload).get("session_id", new_id()),
                "status": status,
                "attempt": 1,
                "position": 1,
                "correlation_id": "label",
                "user_message_id": new_id(),
                "created_at": now_text(),
                "required_actions": list(actions.values()),
                "blocked_by": blocked_by,
            }
        )


@dataclass
class FakeUpstreams:
    """Answers by method, upstream and path, about turns what the bus knows; anything else is not found."""

    bus: FakeBus

    answers: dict[tuple[str, str, str], tuple[int, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str, str, Any]] = field(default_factory=list)
    asked_as: list[Identity] = field(default_factory=list)
    uploaded: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    down: bool = False
    missing: set[str] = field(default_factory=set)
    get: ClassVar = UpstreamClient.get
    read: ClassVar = UpstreamClient.read

    def installed(self, upstream: str) -> bool:
        return upstream not in self.missing

    def asked_paths(self, last: str) -> list[str]:
        """The paths asked for that end with this name."""
        return [path for _, _, path, _ in self.asked if path.rsplit("/", 1)[-1] == last]

    async def request(
        self,
        method: str,
        upstream: str,
        path: str,
        identity: Identity,
        *,
        params: dict[str, Any] | None = None,
        body: bytes | None = None,
        deadline: float = 5.0,
        once: bool = False,
    ) -> UpstreamResponse:
        if self.down:
            raise ServiceUnavailable(f"The {upstream} service can't be reached. Try again later.", retry_after=2)
        self.asked_as.append(identity)
        self.asked.append((method, upstream, path, params if body is None else orjson.loads(body)))
        if (turn := self.bus.turn(path, params)) is not None:
            return turn
        if upstream in self.bus.owners and (method, upstream, path) not in self.answers:
            return await self.bus.owners[upstream].answer(method, path, identity, params, body)
        missing = (404, {"error": {"type": "not_found_error", "message": "there is none"}})
        status, answer = self.answers.get((method, upstream, path), missing)
        return UpstreamResponse(status, orjson.dumps(answer), "application/json")

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        upstream: str,
        path: str,
        identity: Identity,
        *,
        params: dict[str, Any] | None = None,
        body: AsyncIterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[UpstreamStream]:
        content = b"" if body is None else b"".join([piece async for piece in body])
        self.uploaded.append((dict(headers or {}), content))
        reply = await self.request(method, upstream, path, identity, params=params)

        async def pieces() -> AsyncIterator[bytes]:
            yield reply.body

        yield UpstreamStream(reply.status, {"Content-Type": reply.content_type}, pieces())


@dataclass
class Gateway:
    """The public API with its fakes, and a client that uses a key with all scopes."""

    api: PublicApi
    clock: Clock
    keys: FakeKeys
    connections: FakeConnections
    idempotency: FakeIdempotency
    bus: FakeBus
    upstreams: FakeUpstreams
    timeline: FakeTimeline
    usage: FakeUsage
    webhooks: FakeWebhooks
    endpoints: FakeEndpoints
    service_health: FakeServiceHealth
    groups: FakeConsumerGroups
    dead_letters: FakeDeadLetters
    client: httpx.AsyncClient
    key: ApiKey

    def protocol(self, path: str) -> httpx.AsyncClient:
        """A client of the protocol that is served there, with the key as a bearer token."""
        application: Any = next(each for each in self.api.protocols if path.startswith(each.prefix))
        headers = {"Authorization": f"Bearer {key}"} if (key := self.client.headers.get("x-api-key")) else {}
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(application), base_url="http://localhost", headers=headers
        )

    async def until_sent(self, count: int = 1) -> Sent:
        """The last command, once that many were sent."""
        await until(lambda: len(self.bus.sent) >= count, f"{count} commands were sent")
        return self.bus.sent[-1]


@asynccontextmanager
async def gateway(*, cipher: SecretCipher | None = CIPHER, limits: CompanyLimits = NO_LIMITS) -> AsyncIterator[Gateway]:
    clock, idempotency, bus, timeline = Clock(), FakeIdempotency(), FakeBus(), FakeTimeline()
    upstreams = FakeUpstreams(bus)
    keys, connections = FakeKeys(idempotency), FakeConnections(idempotency)
    usage, webhooks, endpoints = FakeUsage(), FakeWebhooks(timeline), FakeEndpoints()
    bus.owners["timeline"] = TimelineService(timeline, usage, webhooks, endpoints, clock.now)
    operations = FakeServiceHealth(), FakeConsumerGroups(), FakeDeadLetters()
    api = PublicApi(
        Dependencies(
            keys=keys,
            connections=connections,
            tokens=JwtTokens("k" * 40),
            idempotency=idempotency,
            bus=bus,
            upstreams=upstreams,
            timeline=timeline,
            cipher=cipher,
            read_replicas=operations[0].replicas,
            read_lag=operations[1].lag,
            open_dead_letters=operations[2].open,
            shared_limits=FakeSharedLimits(FakeSharedState(clock.monotonic)),
            limits=limits,
            now=clock.now,
            monotonic=clock.monotonic,
            shared_origins=frozenset({"https://console.example"}),
        )
    )
    secret, key = keys.issue()
    transport = httpx.ASGITransport(api.application)  # type: ignore[arg-type]
    async with httpx.AsyncClient(
        transport=transport, base_url="http://gateway/api/v1", headers={"x-api-key": secret}
    ) as client:
        stores = (keys, connections, idempotency)
        fakes = (bus, upstreams, timeline, usage, webhooks, endpoints, *operations)
        yield Gateway(api, clock, *stores, *fakes, client, key)


def rejected(kind: ErrorKind, message: str) -> CommandRejected:
    return CommandRejected(error=ErrorInfo(type=kind, message=message))


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error in a reply, after checking its shape."""
    body = response.json()
    assert set(body) == {"error"}, body
    error: dict[str, Any] = body["error"]
    assert {"type", "message", "correlation_id"} <= set(error), error
    assert error["correlation_id"] == response.headers["x-correlation-id"]
    return error
