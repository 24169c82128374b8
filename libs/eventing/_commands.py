"""Carries out commands: once each, with exactly one terminal event."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import structlog
from pydantic import ValidationError

from libs.contracts.envelope import Envelope, MalformedEnvelope, envelope_from
from libs.contracts.errors import (
    AuthenticationFailed,
    InternalError,
    ServiceError,
    ServiceUnavailable,
    TimedOut,
)
from libs.contracts.identity import Identity
from libs.contracts.messages import Command, CommandRejected
from libs.contracts.timestamps import parse_time
from libs.eventing import _inbox as inbox
from libs.eventing import _metrics as metrics
from libs.eventing._bus import Record
from libs.eventing._errors import PoisonMessage
from libs.eventing._identity_tokens import IdentitySigner
from libs.eventing._message_spans import processing
from libs.eventing._messages import COMMAND_LIFETIME, MessageContext, MessageDraft
from libs.eventing._outbox import Outbox, Transaction
from libs.persistence import Database
from libs.tracing import Span, current_traceparent

_log = structlog.get_logger("eventing.commands")
_CONSUMER: Final = "commands"
# Below the ten seconds after which the gateway tells its caller that nobody took the command up.
_PREPARE_SECONDS: Final = 8.0

C = TypeVar("C", bound=Command)
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class CommandContext:
    """Who asked for a command, and what its events refer to. ``message.causation_id`` is the command's id."""

    command_id: str
    identity: Identity
    message: MessageContext
    time: str


Handle = Callable[[Transaction, C, CommandContext], Awaitable[None]]
HandlePrepared = Callable[[Transaction, C, CommandContext, P], Awaitable[None]]
Prepare = Callable[[C, CommandContext], Awaitable[P]]
HandleRaw = Callable[[C, CommandContext], Awaitable[ServiceError | None]]
"""Returns the refusal that it recorded, if it did. Raises ``AlreadyProcessed`` for a repeat."""
Lookup = Callable[[str, str], Awaitable[bool]]
"""Whether the command with this id is known to a service, if it is that company's."""


@dataclass(frozen=True, slots=True)
class _Route:
    command: type[Command]
    handle_raw: HandleRaw[Any] | None = None
    handle: Handle[Any] | None = None
    handle_prepared: HandlePrepared[Any, Any] | None = None
    prepare: Prepare[Any, Any] | None = None
    ends_later: bool = False


class CommandRouter:
    """Finds the handler of a command and keeps the promises around it.

    A command takes effect once: its inbox row, its effects and its events are one transaction. A repeat
    publishes the recorded outcome again. A ``ServiceError`` becomes the ``….rejected`` event; any other error is
    tried again by the consumer and, when that gives up, becomes a rejection as well.
    """

    def __init__(self, database: Database, outbox: Outbox, signer: IdentitySigner) -> None:
        self.lookups: list[Lookup] = []
        self._database = database
        self._outbox = outbox
        self._signer = signer
        self._routes: dict[str, _Route] = {}

    @property
    def topics(self) -> list[str]:
        """The topics that hold the commands handled."""
        return sorted({route.command.TOPIC.name for route in self._routes.values()})

    def handle(self, command: type[C], handler: Handle[C], *, ends_later: bool = False) -> None:
        """Carry out a command in one transaction.

        The handler emits one of the command's outcomes, unless ``ends_later`` says that other work will.
        """
        self._routes[command.TYPE] = _Route(command, handle=handler, ends_later=ends_later)

    def handle_prepared(self, command: type[C], prepare: Prepare[C, P], handler: HandlePrepared[C, P]) -> None:
        """Like ``handle``, after remote calls that must not happen inside the transaction (8 s at most)."""
        self._routes[command.TYPE] = _Route(command, prepare=prepare, handle_prepared=handler)

    def handle_raw(self, command: type[C], handler: HandleRaw[C]) -> None:
        """Leave idempotency, state and outcome to the handler; only its ``ServiceError`` is rendered here."""
        self._routes[command.TYPE] = _Route(command, handle_raw=handler, ends_later=True)

    async def knows(self, command_id: str, company_id: str) -> bool:
        """Whether this company's command has been taken up, ended or not; another's is not known."""
        for lookup in self.lookups:
            if await lookup(command_id, company_id):
                return True
        return await self._has_entered(command_id, company_id)

    async def _has_entered(self, command_id: str, company_id: str) -> bool:
        async with self._database.connection() as connection:
            return await inbox.knows(connection, _CONSUMER, command_id, company_id)

    async def deliver(self, record: Record) -> None:
        """Carry out the command in a record. Raises ``PoisonMessage`` for what can never be one."""
        envelope = self._envelope(record)
        route = self._routes.get(envelope.type)
        if route is None:
            _log.info("command.ignored", type=envelope.type, command_id=envelope.id)
            return
        structlog.contextvars.bind_contextvars(correlation_id=envelope.correlation_id, command_id=envelope.id)
        with processing(record, envelope) as span:
            await self._deliver(route, record, envelope, span)

    async def _deliver(self, route: _Route, record: Record, envelope: Envelope, span: Span) -> None:
        context = self._context(envelope)
        measurement = metrics.CommandMeasurement(envelope.type)
        try:
            if _is_expired(envelope):
                await self._check_taken_up(context)
            command = self._decode(route, record)
            refused = await self._carry_out(route, command, context)
            outcome = "done" if refused is None else "rejected"
        except inbox.AlreadyProcessed:
            # The first delivery's event may have been published before anybody listened, or not at all.
            await self._repeat_outcome(context)
            outcome = "repeated"
        except ServiceError as refusal:
            await self._reject(route, context, refusal)
            outcome = "rejected"
        measurement.end(outcome)
        span.set("aes.outcome", outcome)

    async def give_up(self, record: Record, reason: str) -> None:
        """End a command that is dead-lettered, as far as it can be read at all."""
        try:
            envelope = self._envelope(record)
            context = self._context(envelope)
        except PoisonMessage:
            return
        route = self._routes.get(envelope.type)
        # What was taken up ends by itself; a failure told now would be its second end.
        if route is not None and not await self.knows(envelope.id, envelope.company_id):
            _log.error("command.given_up", type=envelope.type, command_id=envelope.id, reason=reason)
            metrics.given_up(envelope.type)
            await self._reject(route, context, InternalError("the command could not be carried out"))

    @staticmethod
    def _envelope(record: Record) -> Envelope:
        try:
            return envelope_from(record.headers)
        except MalformedEnvelope as problem:
            raise PoisonMessage(str(problem)) from problem

    def _context(self, envelope: Envelope) -> CommandContext:
        try:
            identity = self._signer.verify_command(envelope.identity or "")
        except AuthenticationFailed as problem:
            raise PoisonMessage("the command carries no valid identity") from problem
        # Consumers filter by the envelope's company without looking at the signature.
        if identity.company_id != envelope.company_id:
            raise PoisonMessage("the command's company is not its caller's")
        trace = current_traceparent() or envelope.traceparent
        message = MessageContext(identity.company_id, envelope.correlation_id, envelope.id, trace)
        return CommandContext(envelope.id, identity, message, envelope.time)

    @staticmethod
    def _decode(route: _Route, record: Record) -> Command:
        try:
            return route.command.decode(record.value)
        except ValidationError as problem:
            raise PoisonMessage(f"not a {route.command.TYPE}: {problem.error_count()} errors") from problem

    async def _check_taken_up(self, context: CommandContext) -> None:
        """A redelivery may come after the expiry; what was taken up before it stays taken up, or refused."""
        command_id, company_id = context.command_id, context.identity.company_id
        if await self._has_entered(command_id, company_id):
            raise inbox.AlreadyProcessed(command_id)
        if not await self.knows(command_id, company_id):
            raise TimedOut("the command expired before it was taken up; nothing was done")

    async def _carry_out(self, route: _Route, command: Command, context: CommandContext) -> ServiceError | None:
        if route.handle_raw is not None:
            return await route.handle_raw(command, context)
        prepared = await self._prepare(route, command, context)
        async with self._outbox.transaction(context.message) as transaction:
            await self._enter(transaction, context)
            if route.handle is not None:
                await route.handle(transaction, command, context)
            if route.handle_prepared is not None:
                await route.handle_prepared(transaction, command, context, prepared)
            self._check_outcome(route, transaction)
        return None

    async def _prepare(self, route: _Route, command: Command, context: CommandContext) -> object:
        if route.prepare is None:
            return None
        # The inbox row comes after the calls: without this look a redelivery would make them again.
        if await self.knows(context.command_id, context.identity.company_id):
            raise inbox.AlreadyProcessed(context.command_id)
        try:
            async with asyncio.timeout(_PREPARE_SECONDS):
                return await route.prepare(command, context)
        except TimeoutError as problem:
            raise ServiceUnavailable("a service that this needs did not answer in time", retry_after=2) from problem

    @staticmethod
    async def _enter(transaction: Transaction, context: CommandContext) -> None:
        await inbox.enter(transaction.connection, _CONSUMER, context.command_id, context.identity.company_id)

    @staticmethod
    def _check_outcome(route: _Route, transaction: Transaction) -> None:
        outcomes = route.command.outcome_types()
        emitted = {draft.type or draft.message.TYPE for draft in transaction.drafts}
        if not route.ends_later and not emitted & outcomes:
            raise RuntimeError(f"the handler of {route.command.TYPE} emitted no outcome")

    async def _reject(self, route: _Route, context: CommandContext, refusal: ServiceError) -> None:
        # In a transaction of its own: the one that raised is rolled back, and its inbox row with it.
        draft = MessageDraft(
            CommandRejected(error=refusal.info()),
            subject=context.command_id,
            context=context.message,
            sequence=1,
            type=route.command.rejected_type(),
            topic=_events_topic(route.command),
        )
        try:
            async with self._outbox.transaction(context.message) as transaction:
                await self._enter(transaction, context)
                transaction.drafts.append(draft)
        except inbox.AlreadyProcessed:
            await self._repeat_outcome(context)

    async def _repeat_outcome(self, context: CommandContext) -> None:
        metrics.inbox_hits(_CONSUMER).inc()
        outcome = await self._outbox.outcome(context.command_id)
        _log.info("command.repeated", command_id=context.command_id, ended=outcome is not None)
        if outcome is not None:
            await self._outbox.republish(outcome)


def _is_expired(envelope: Envelope) -> bool:
    now = datetime.now(UTC)
    try:
        expired = envelope.expires_at is not None and parse_time(envelope.expires_at) <= now
        return expired or parse_time(envelope.time) <= now - COMMAND_LIFETIME
    except ValueError as problem:
        raise PoisonMessage("the command's times cannot be read") from problem


def _events_topic(command: type[Command]) -> str:
    return command.TOPIC.name.removesuffix("-commands") + "-events"
