"""Both ends of command channels: a process that carries out notes as a test says, and a caller that keeps a record."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI

from libs.contracts.envelope import Envelope
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.timestamps import now_text
from libs.eventing import HandedOver, IdentitySigner, Received
from libs.eventing._command_listeners import CommandListeners
from libs.service_defaults._command_channel_route import CommandChannelRoute
from libs.service_defaults._http_server import HttpServer
from libs.service_defaults.command_channels import ServiceCommandChannels
from libs.service_defaults.internal_routes import BEARER
from tests.support.command_records import ALICE, SIGNING_KEY
from tests.support.sample_owner import TOPICS, NoteTaken, TakeNote
from tests.support.waiting import until

STEP = "aes.notes.note.begun.v1"
SIGNER = IdentitySigner(SIGNING_KEY)
_SERVICE = Identity(company_id="", user_id="service", key_id="service", scopes=frozenset())


def command(subject: str, *, command_type: str = TakeNote.TYPE, size: int = 1) -> HandedOver:
    payload = TakeNote(note_id=subject, text="t" * size).encode()
    envelope = Envelope(
        id=new_id(),
        type=command_type,
        source="/aes/test",
        subject=subject,
        time=now_text(),
        correlation_id="label",
        company_id=ALICE.company_id,
    )
    return HandedOver(TOPICS[0], SIGNER.sign_command(envelope, ALICE, payload), payload)


def event(given: Envelope, event_type: str = NoteTaken.TYPE) -> Envelope:
    return Envelope(
        id=new_id(),
        type=event_type,
        source="/aes/notes",
        subject=given.subject,
        time=now_text(),
        correlation_id=given.correlation_id,
        company_id=given.company_id,
        causation_id=given.id,
    )


def own_headers(identity: Identity = _SERVICE, signer: IdentitySigner = SIGNER) -> dict[str, str]:
    return {"Authorization": BEARER + signer.sign(identity, expires_at=2**32)}


@dataclass
class FakeOutbox:
    listeners: CommandListeners = field(default_factory=CommandListeners)


@dataclass
class Process:
    """Carries out notes: what ``handle`` gets is done when it returns, and fails when it raises."""

    handle: Callable[["Process", Envelope], Any] = lambda process, envelope: process.publish(event(envelope))
    outbox: FakeOutbox = field(default_factory=FakeOutbox)
    takes: bool = True
    begun: list[str] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self.route = CommandChannelRoute(self, self.outbox, SIGNER, lambda: self.takes)  # type: ignore[arg-type]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def handles(self, command_type: str) -> bool:
        return command_type == TakeNote.TYPE

    async def dispatch(self, envelope: Envelope, payload: bytes) -> None:
        assert SIGNER.verify_command(envelope, payload) == ALICE
        self.begun.append(envelope.id)
        if (outcome := self.handle(self, envelope)) is not None:
            await outcome

    def publish(self, envelope: Envelope, payload: bytes = b"{}") -> None:
        self.outbox.listeners.publish(envelope, payload)

    @asynccontextmanager
    async def serving(self, host: str = "127.0.0.1") -> AsyncIterator["Process"]:
        app = FastAPI()
        app.include_router(self.route.router)
        server = HttpServer(app, host=host, port=self.port, grace_seconds=1)
        running = asyncio.create_task(server.serve_until_told())
        await until(lambda: server.started)
        self.port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.should_exit = True
            await running


class Caller:
    """Keeps channels as the gateway does."""

    def __init__(self, *urls: str, headers: Callable[[], dict[str, str]] = own_headers) -> None:
        self.channels = ServiceCommandChannels({"notes": ",".join(urls)}, headers)
        self.channels.on_event = lambda envelope, payload: self.events.append(Received(envelope, payload))
        self.channels.on_returned = self._keep
        self.events: list[Received] = []
        self.returned: list[str] = []

    def _keep(self, given: HandedOver) -> None:
        self.returned.append(given.envelope.id)

    @property
    def open(self) -> int:
        return self.channels._count_open("notes")

    def ends(self) -> list[str]:
        """The commands that have ended, as far as the channels brought it."""
        return [each.envelope.causation_id or "" for each in self.events if each.envelope.type == NoteTaken.TYPE]

    async def submit(self, given: HandedOver) -> bool:
        return await self.channels.submit(given)

    @asynccontextmanager
    async def connected(self, count: int = 1) -> AsyncIterator["Caller"]:
        running = asyncio.create_task(self.channels.run())
        try:
            await until(lambda: self.open == count)
            yield self
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
