"""Turns a write into a command to its upstream and waits for the event that ends it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from inspect import isawaitable
from typing import Final, TypeVar

from libs.contracts.commands.runtime import COMPANY_BACKLOG_FULL, ExecuteTurn
from libs.contracts.errors import Conflict, ErrorKind, RateLimited, ServiceUnavailable, TimedOut, error_from
from libs.contracts.events.runtime import TurnCancelled, TurnFailed
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Command, CommandRejected
from libs.eventing import CommandSender, CommandState, Received, Replies
from libs.tracing import bind_correlation_id
from services.gateway.domain.idempotency import IdempotencyRecord, KeyReused, OtherBody, Write
from services.gateway.domain.ports import IdempotencyStore
from services.gateway.use_cases.company_rates import CompanyRates

_ACCEPTANCE_SECONDS: Final = 10.0
_DONE_SECONDS: Final = 30.0
_EXPIRES_SECONDS: Final = 120.0
NOT_ACCEPTED: Final = (
    "The request was not accepted in time. It may still be carried out; repeating it with the same Idempotency-Key"
    " is safe."
)
_UNFINISHED: Final = (
    "The request was accepted but is not done yet. It may still be carried out; repeating it with the same"
    " Idempotency-Key is safe."
)
_TRANSIENT: Final = frozenset(
    {ErrorKind.RATE_LIMIT, ErrorKind.BUDGET, ErrorKind.QUOTA, ErrorKind.UNAVAILABLE, ErrorKind.TIMEOUT}
)
Make = Callable[[str], Command | Awaitable[Command]]
"""Makes the command that has the given id; may call other services, and raises errors for the caller."""


@dataclass(frozen=True, slots=True)
class PendingCommand:
    """A command that was sent, and the events that it causes.

    ``known``: its upstream has it from an earlier request with the same idempotency key.
    """

    command_id: str
    replies: Replies
    known: bool = False


P = TypeVar("P", bound=PendingCommand)


@dataclass(frozen=True, slots=True)
class CommandDispatcher:
    """Sends commands and waits for their outcomes; a repeated request finds the command of the first one.

    ``installed``: whether the installation has the service of that name. ``rates`` count turns, however they come.
    """

    bus: CommandSender
    idempotency: IdempotencyStore
    installed: Callable[[str], bool]
    rates: CompanyRates

    async def run(
        self,
        write: Write,
        command: Command,
        *,
        subject: str | None = None,
        accepted_within: float | None = None,
    ) -> Received:
        """Returns the command's terminal event; raises the error in it when it is a refusal or a failure.

        ``subject``: the id of the entity that the command is about, by default the command's own id.
        ``accepted_within``: seconds for an upstream that asks others before it accepts the command; ten by default.
        """
        dispatched = self.dispatch(write, type(command), lambda _: command, PendingCommand, subject=subject)
        return await self._outcome(dispatched, accepted_within)

    async def create(self, write: Write, command: type[Command], make: Make) -> Received:
        """Like ``run``, for an entity that gets the command's id: a repeated creation finds the same one."""
        return await self._outcome(self.dispatch(write, command, make, PendingCommand))

    async def _outcome(
        self, dispatched: AbstractAsyncContextManager[PendingCommand], accepted_within: float | None = None
    ) -> Received:
        accepted_within = accepted_within or _ACCEPTANCE_SECONDS
        async with dispatched as pending:
            replies = pending.replies
            received = await replies.outcome(accepted_within)
            # An upstream that has accepted the command will end it; otherwise it may never have seen it.
            accepted = pending.known or replies.accepted
            if received is None and accepted:
                received = await replies.outcome(_DONE_SECONDS - accepted_within)
            if received is None:
                raise TimedOut(_UNFINISHED if accepted else NOT_ACCEPTED)
            raise_failure(received)
            return received

    @asynccontextmanager
    async def dispatch(
        self,
        write: Write,
        command: type[Command],
        make: Make,
        pending: Callable[[str, Replies, bool], P],
        *,
        subject: str | None = None,
    ) -> AsyncIterator[P]:
        """Sends the command, unless its upstream has it from an earlier request, and listens for its events.

        ``pending`` makes the result from the command's id, its replies, and whether the upstream had it before.
        """
        if not self.installed(command.TOPIC.owner):
            raise ServiceUnavailable(f"This installation has no {command.TOPIC.owner} service.")
        record = await self._record(write)
        while True:
            # Subscribed before the look-up: an outcome is either received or found.
            async with self.bus.replies(record.command_id, command, write.identity) as replies:
                state = await self._state(command, record, write.identity)
                if write.request is None or not _is_refused_for_now(state):
                    if state.outcome is not None:
                        replies.arrive(state.outcome)
                    if not state.known:
                        if command is ExecuteTurn:
                            await self.rates.take_turn(write.identity.company_id)
                        made = make(record.command_id)
                        await self._send(write, record, await made if isawaitable(made) else made, subject)
                    try:
                        yield pending(record.command_id, replies, state.known)
                    except RateLimited as refusal:
                        if any(detail.type == COMPANY_BACKLOG_FULL for detail in refusal.details or ()):
                            self.rates.backlog_is_full(write.identity.company_id, refusal)
                        raise
                    return
            # Nothing was done, and the upstream goes on refusing this command id: the repeat gets another one.
            record = await self.idempotency.renew(
                write.request,
                refused=record.command_id,
                command_id=new_id(),
                correlation_id=write.correlation_id,
            )

    async def _send(self, write: Write, record: IdempotencyRecord, command: Command, subject: str | None) -> None:
        await self.bus.send(
            command,
            subject=subject or record.command_id,
            command_id=record.command_id,
            correlation_id=record.correlation_id,
            identity=write.identity,
            expires_in=_EXPIRES_SECONDS,
            traceparent=write.traceparent,
        )

    async def _record(self, write: Write) -> IdempotencyRecord:
        if write.command_id is not None:
            # Any request may have been the first one with this id.
            return IdempotencyRecord(command_id=write.command_id, correlation_id=write.correlation_id, repeated=True)
        command_id = new_id()
        if write.request is None:
            return IdempotencyRecord(command_id=command_id, correlation_id=write.correlation_id)
        try:
            record = await self.idempotency.record(
                write.request, command_id=command_id, correlation_id=write.correlation_id
            )
        except KeyReused:
            raise OtherBody() from None
        write.correlation_id = record.correlation_id
        bind_correlation_id(record.correlation_id)
        return record

    async def _state(self, command: type[Command], record: IdempotencyRecord, identity: Identity) -> CommandState:
        if not record.repeated:
            return CommandState(known=False)
        try:
            return await self.bus.knows(command, record.command_id, identity)
        except ServiceUnavailable:
            # Sending twice is safe: the upstream's inbox knows a command that it has carried out.
            return CommandState(known=False)


def _is_refused_for_now(state: CommandState) -> bool:
    """Whether the upstream did nothing and may accept the same command later."""
    if state.outcome is None or not state.outcome.envelope.type.endswith(".rejected.v1"):
        return False
    return CommandRejected.decode(state.outcome.payload).error.type in _TRANSIENT


def raise_failure(received: Received) -> None:
    """Raises the error of a refusal, failure or cancellation; does nothing for a success."""
    event_type = received.envelope.type
    if event_type.endswith(".rejected.v1"):
        raise error_from(CommandRejected.decode(received.payload).error)
    if event_type == TurnFailed.TYPE:
        raise error_from(TurnFailed.decode(received.payload).error)
    if event_type == TurnCancelled.TYPE:
        raise Conflict("The turn was cancelled.")
