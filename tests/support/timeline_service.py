"""The timeline's API and commands on stores in memory, behind the bus and the upstreams of the gateway's tests."""

from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import Any

from libs.contracts.errors import ServiceError
from libs.contracts.identity import Identity
from libs.contracts.messages import Command, CommandContext, CommandRejected, Event, MessageContext
from libs.contracts.timestamps import format_time
from libs.eventing import IdentitySigner, Transaction
from libs.service_defaults import UpstreamResponse
from services.timeline.entrypoints.resources.events import serve_events
from services.timeline.entrypoints.resources.usage import serve_usage
from services.timeline.entrypoints.resources.webhooks import serve_webhooks
from services.timeline.use_cases.webhooks import Webhooks
from tests.support.internal_api import InternalApi
from tests.support.timeline import FakeTimeline
from tests.support.usage import FakeUsage
from tests.support.webhook_fakes import FakeEndpoints, FakeWebhooks


class _Handlers:
    """A ``CommandRouter`` that only notes what carries a command out."""

    def __init__(self) -> None:
        self.prepare: dict[type[Command], Any] = {}
        self.dispatch: dict[type[Command], Any] = {}

    def handle(self, command: type[Command], handler: Any) -> None:
        self.dispatch[command] = handler

    def handle_prepared(self, command: type[Command], prepare: Any, handler: Any) -> None:
        self.prepare[command], self.dispatch[command] = prepare, handler


class TimelineService:
    """``events`` are what its commands have emitted."""

    def __init__(
        self,
        timeline: FakeTimeline,
        usage: FakeUsage,
        webhooks: FakeWebhooks,
        endpoints: FakeEndpoints,
        now: Callable[[], datetime],
    ) -> None:
        self.events: list[Event] = []
        self.use_cases = Webhooks(webhooks, lambda _: webhooks, endpoints, now)
        self._now = now
        self._timeline, self._usage = timeline, usage

    @cached_property
    def _served(self) -> tuple[InternalApi, _Handlers]:
        """Made when it is first used: to make routes takes longer than all else of a gateway on fakes."""
        internal, handlers = InternalApi(IdentitySigner("k" * 40)), _Handlers()
        serve_events(internal.app, self._timeline)
        serve_usage(internal.app, self._usage)
        serve_webhooks(handlers, internal.app, self.use_cases)  # type: ignore[arg-type]
        return internal, handlers

    async def answer(self, *request: Any) -> UpstreamResponse:
        internal, _ = self._served
        return await internal.answer(*request)

    async def dispatch(self, command: Command, command_id: str, correlation_id: str, identity: Identity) -> Event:
        """Returns the command's terminal event."""
        message = MessageContext(identity.company_id, correlation_id, command_id)
        context = CommandContext(command_id, identity, message, format_time(self._now()))
        transaction = Transaction(None, message)  # type: ignore[arg-type]
        _, handlers = self._served
        try:
            prepared: tuple[Any, ...] = ()
            if (prepare := handlers.prepare.get(type(command))) is not None:
                prepared = (await prepare(command, context),)
            await handlers.dispatch[type(command)](transaction, command, context, *prepared)
        except ServiceError as refusal:
            return CommandRejected(error=refusal.info())
        emitted = [draft.message for draft in transaction.drafts]
        self.events += emitted
        return next(event for event in emitted if event.TYPE in type(command).outcome_types())
