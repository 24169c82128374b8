"""Executes each command once and ends it with exactly one terminal event."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Final, TypeVar

import structlog
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from libs.contracts.errors import (
    AuthenticationFailed,
    InternalError,
    ServiceError,
    ServiceUnavailable,
    TimedOut,
    ValidationFailed,
    dotted_path,
)
from libs.contracts.findings import invalid
from libs.contracts.messages import (
    Command,
    CommandContext,
    CommandRejected,
    Draft,
    Envelope,
    MessageContext,
    PoisonMessage,
    envelope_from,
)
from libs.contracts.resources.connections import ConnectionDeleted
from libs.contracts.resources.keys import ApiKeyRevoked
from libs.contracts.timestamps import parse_time
from libs.contracts.topics import GATEWAY_EVENTS
from libs.eventing import _inbox as inbox
from libs.eventing import _metrics as metrics
from libs.eventing._identity_tokens import IdentitySigner
from libs.eventing._outbox import Outbox, Transaction
from libs.eventing.bus import Bus, Record
from libs.eventing.messages import COMMAND_LIFETIME, process_span
from libs.eventing.request_reply import TailReader
from libs.persistence import Database
from libs.tracing import current_traceparent

_REMEMBERED_KEYS: Final = 100_000
_log = structlog.get_logger("eventing.commands")
_CONSUMER: Final = "commands"
# Must be shorter than the ten seconds after which the gateway reports that a command wasn't accepted.
_PREPARE_SECONDS: Final = 8.0
C = TypeVar("C", bound=Command)
P = TypeVar("P")
Handle = Callable[[Transaction, C, CommandContext], Awaitable[None]]
HandlePrepared = Callable[[Transaction, C, CommandContext, P], Awaitable[None]]
Prepare = Callable[[C, CommandContext], Awaitable[P]]
HandleRaw = Callable[[C, CommandContext], Awaitable[ServiceError | None]]
"""Executes a command. Returns the rejection that the handler has recorded, or None. Raises ``AlreadyProcessed``."""
Lookup = Callable[[str, str], Awaitable[bool]]
"""Returns whether a service has accepted a company's command. Called with ``(command_id, company_id)``."""


class RevokedKeys:
    """The API keys that were revoked, and when, according to the gateway's events.

    Each process reads the topic from the beginning, since the topic retains events for longer than commands are valid.
    """

    def __init__(self, bus: Bus) -> None:
        self._reader = TailReader(bus, [GATEWAY_EVENTS.name], self._on_record, from_start=True)
        self._revoked: dict[str, str] = {}

    @property
    def loaded(self) -> bool:
        """Returns whether all revocations published before reading started have been read."""
        return self._reader.caught_up.is_set()

    async def run(self) -> None:
        """Reads revocations until cancelled."""
        await self._reader.run()

    async def wait(self) -> None:
        """Waits until ``loaded`` is true."""
        await self._reader.caught_up.wait()

    def was_revoked_before(self, key_id: str, time: str) -> bool:
        """Returns whether the key was revoked before ``time``, an ISO timestamp."""
        revoked = self._revoked.get(key_id)
        return revoked is not None and revoked < time

    def _on_record(self, record: Record) -> None:
        try:
            envelope = envelope_from(record.headers)
            if envelope.type == ApiKeyRevoked.TYPE:
                key_id = ApiKeyRevoked.decode(record.value).key_id
            elif envelope.type == ConnectionDeleted.TYPE:
                key_id = ConnectionDeleted.decode(record.value).connection_id
            else:
                return
        except (PoisonMessage, ValueError) as problem:
            _log.warning("event.malformed", topic=record.topic, offset=record.offset, problem=str(problem))
            return
        self._revoked[key_id] = envelope.time
        if len(self._revoked) > _REMEMBERED_KEYS:
            self._revoked.pop(next(iter(self._revoked)))


class CommandRouter:
    """Routes commands to their handlers. Each command takes effect once and ends with exactly one terminal event.

    A command's inbox row, effects and events are committed in one transaction. If the command is redelivered, its
    recorded outcome is published again. A ``ServiceError`` becomes the ``….rejected`` event. All other errors are
    retried; if the command keeps failing, it's rejected.
    """

    def __init__(
        self, database: Database, outbox: Outbox, signer: IdentitySigner, revoked: RevokedKeys | None = None
    ) -> None:
        self.lookups: list[Lookup] = []
        self._database = database
        self._outbox = outbox
        self._signer = signer
        self._revoked = revoked
        self._routes: dict[str, tuple[type[Command], HandleRaw[Any]]] = {}

    @property
    def topics(self) -> list[str]:
        """Returns the topics of the registered commands."""
        return sorted({command_type.TOPIC.name for command_type, _ in self._routes.values()})

    def handle(self, command_type: type[C], handler: Handle[C], *, ends_later: bool = False) -> None:
        """Registers a handler that runs in a transaction and emits one of the command's outcomes.

        If ``ends_later`` is true, the outcome may be emitted after the handler has returned.
        """

        async def run(message: C, context: CommandContext) -> None:
            async with self._entered(context) as transaction:
                await handler(transaction, message, context)
                if not ends_later:
                    _check_outcome(command_type, transaction)

        self.handle_raw(command_type, run)

    def handle_prepared(
        self,
        command_type: type[C],
        prepare: Prepare[C, P],
        handler: HandlePrepared[C, P],
        *,
        seconds: float = _PREPARE_SECONDS,
    ) -> None:
        """Registers a handler whose ``prepare`` step makes remote calls before the transaction opens.

        ``prepare`` may take up to ``seconds``. The sender must wait for longer than that.
        """

        async def run(message: C, context: CommandContext) -> None:
            # The inbox row is written after the calls. Without this lookup, a redelivery would repeat the calls.
            if await self.knows(context.command_id, context.identity.company_id):
                raise inbox.AlreadyProcessed(context.command_id)
            try:
                async with asyncio.timeout(seconds):
                    prepared = await prepare(message, context)
            except TimeoutError as problem:
                raise ServiceUnavailable(
                    "A service required by this request didn't respond in time. Try again later.", retry_after=2
                ) from problem
            async with self._entered(context) as transaction:
                await handler(transaction, message, context, prepared)
                _check_outcome(command_type, transaction)

        self.handle_raw(command_type, run)

    def handle_raw(self, command_type: type[C], handler: HandleRaw[C]) -> None:
        """Registers a handler that manages transactions, idempotency and the outcome itself."""
        self._routes[command_type.TYPE] = (command_type, handler)

    @staticmethod
    async def enter_all(transaction: Transaction, commands: Collection[CommandContext]) -> inbox.PendingEntries:
        """Records several commands in the inbox, in the same transaction as their effects.

        If the result's ``check`` raises, roll the transaction back and execute each command separately.
        """
        given = [(command.command_id, command.identity.company_id) for command in commands]
        return await inbox.enter_all(transaction.connection, _CONSUMER, given)

    @asynccontextmanager
    async def _entered(self, context: CommandContext) -> AsyncIterator[Transaction]:
        """Opens a transaction with the command's inbox row. Raises ``AlreadyProcessed``."""
        async with self._outbox.transaction(context.message) as transaction:
            await inbox.enter(transaction.connection, _CONSUMER, context.command_id, context.identity.company_id)
            yield transaction

    async def knows(self, command_id: str, company_id: str) -> bool:
        """Returns whether the company's command was accepted."""
        for lookup in self.lookups:
            if await lookup(command_id, company_id):
                return True
        return await self._has_entered(command_id, company_id)

    async def _has_entered(self, command_id: str, company_id: str) -> bool:
        async with self._database.connection() as connection:
            return await inbox.knows(connection, _CONSUMER, command_id, company_id)

    async def deliver(self, record: Record) -> None:
        """Executes the command in a record. Raises ``PoisonMessage`` if the record is invalid."""
        envelope = envelope_from(record.headers)
        if envelope.type not in self._routes:
            _log.info("command.ignored", type=envelope.type, command_id=envelope.id)
            return
        structlog.contextvars.bind_contextvars(correlation_id=envelope.correlation_id, command_id=envelope.id)
        with process_span(record.topic, envelope) as span:
            context = self._context(envelope, record.value)
            began = perf_counter()
            outcome = await self._execute(envelope, record.value, context)
            metrics.command_ended(envelope.type, outcome, perf_counter() - began)
            span.set("aes.outcome", outcome)

    async def _execute(self, envelope: Envelope, payload: bytes, context: CommandContext) -> str:
        command_type, handler = self._routes[envelope.type]
        try:
            await self._check_authority(envelope, context)
            refused = await handler(await self._decoded(command_type, payload, context), context)
        except inbox.AlreadyProcessed:
            # The event of the first delivery may have been published before a caller listened, or not at all.
            await self._repeat_outcome(context)
            return "repeated"
        except ServiceError as refusal:
            await self._reject(command_type, context, refusal)
            return "rejected"
        return "done" if refused is None else "rejected"

    async def _decoded(self, command_type: type[Command], payload: bytes, context: CommandContext) -> Command:
        """Decodes a command. Raises ``PoisonMessage`` if the payload isn't JSON.

        Raises ``ValidationFailed`` for a body that only a gateway of another version considers valid.
        """
        try:
            return command_type.decode(payload)
        except ValidationError as problem:
            if problem.errors(include_url=False)[0]["type"] != "json_invalid":
                refusal = _invalid_command(command_type, from_json(payload), problem)
                fields = [dotted_path(detail.loc) for detail in (refusal.details or [])[:10]]
                _log.warning("command.invalid", type=command_type.TYPE, command_id=context.command_id, fields=fields)
                await self._refuse_unless_accepted(context, refusal)
            raise PoisonMessage(
                f"the payload isn't a valid {command_type.TYPE} (errors: {problem.error_count()})"
            ) from problem

    async def give_up(self, record: Record, cause: str) -> None:
        """Rejects a command that is about to be dead-lettered."""
        try:
            envelope = envelope_from(record.headers)
            context = self._context(envelope, record.value)
        except PoisonMessage:
            return
        # An accepted command emits its own terminal event. A rejection would be a second one.
        if envelope.type in self._routes and not await self.knows(envelope.id, envelope.company_id):
            _log.error("command.given_up", type=envelope.type, command_id=envelope.id, cause=cause)
            metrics.given_up(envelope.type)
            command_type, _ = self._routes[envelope.type]
            given_up = InternalError(
                "The command couldn't be executed. Give the correlation ID to the operator.", cause=cause
            )
            await self._reject(command_type, context, given_up)

    def _context(self, envelope: Envelope, payload: bytes) -> CommandContext:
        try:
            identity = self._signer.verify_command(envelope, payload)
        except AuthenticationFailed as problem:
            raise PoisonMessage(f"the command has no valid identity: {problem.message}") from problem
        # Consumers filter by the envelope's company without checking the signature.
        if identity.company_id != envelope.company_id:
            raise PoisonMessage("the command's company differs from the caller's company")
        trace = current_traceparent() or envelope.traceparent
        message = MessageContext(identity.company_id, envelope.correlation_id, envelope.id, trace)
        return CommandContext(envelope.id, identity, message, envelope.time)

    async def _check_authority(self, envelope: Envelope, context: CommandContext) -> None:
        """Rejects a command that has expired, or that was created after its API key was revoked."""
        if _is_expired(envelope):
            expired = TimedOut("The command expired before it was accepted. Nothing was changed, so send it again.")
            await self._refuse_unless_accepted(context, expired)
        if self._revoked is not None and self._revoked.was_revoked_before(context.identity.key_id, envelope.time):
            revoked = AuthenticationFailed("The API key was revoked before the request was sent. Use another key.")
            await self._refuse_unless_accepted(context, revoked)

    async def _refuse_unless_accepted(self, context: CommandContext, refusal: ServiceError) -> None:
        """Raises ``refusal``, unless an earlier delivery of the command was accepted."""
        command_id, company_id = context.command_id, context.identity.company_id
        if await self._has_entered(command_id, company_id):
            raise inbox.AlreadyProcessed(command_id)
        if not await self.knows(command_id, company_id):
            raise refusal

    async def _reject(self, command_type: type[Command], context: CommandContext, refusal: ServiceError) -> None:
        draft = Draft(
            CommandRejected(error=refusal.info()),
            subject=context.command_id,
            # Only the caller sees the rejection, since it may mention entities that other users can't see.
            context=replace(context.message, owner_id=context.identity.user_id),
            sequence=1,
            type=command_type.rejected_type(),
            topic=command_type.TOPIC.name.removesuffix("-commands") + "-events",
            cause=refusal.cause if isinstance(refusal, InternalError) else None,
        )
        try:
            # The handler's transaction and its inbox row were rolled back, so this needs a new transaction.
            async with self._entered(context) as transaction:
                transaction.drafts.append(draft)
        except inbox.AlreadyProcessed:
            await self._repeat_outcome(context)

    async def _repeat_outcome(self, context: CommandContext) -> None:
        metrics.inbox_hits(_CONSUMER).inc()
        outcome = await self._outbox.outcome(context.command_id)
        _log.info("command.redelivered", command_id=context.command_id, ended=outcome is not None)
        if outcome is not None:
            await self._outbox.republish(outcome)


def _invalid_command(command_type: type[Command], values: Any, problem: ValidationError) -> ValidationFailed:
    """Returns the error that the gateway would return for the command's body."""
    for name, field in command_type.model_fields.items():
        model = field.annotation
        if isinstance(values, dict) and name in values and isinstance(model, type) and issubclass(model, BaseModel):
            try:
                model.model_validate(values[name])
            except ValidationError as of_body:
                return invalid(of_body, values[name], model)
    return invalid(problem, values, command_type)


def _check_outcome(command_type: type[Command], transaction: Transaction) -> None:
    emitted = {draft.type or draft.message.TYPE for draft in transaction.drafts}
    if not emitted & command_type.outcome_types():
        raise RuntimeError(f"the handler of {command_type.TYPE} didn't emit an outcome")


def _is_expired(envelope: Envelope) -> bool:
    now = datetime.now(UTC)
    try:
        expired = envelope.expires_at is not None and parse_time(envelope.expires_at) <= now
        return expired or parse_time(envelope.time) <= now - COMMAND_LIFETIME
    except ValueError as problem:
        raise PoisonMessage("the command's creation or expiry time is invalid") from problem
