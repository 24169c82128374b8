"""Turns a write into a command, and waits for the command's terminal event."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from inspect import isawaitable
from typing import Final

from libs.contracts.errors import Conflict, ErrorKind, RateLimited, ServiceUnavailable, TimedOut, error_from
from libs.contracts.identifiers import new_id
from libs.contracts.messages import Command, CommandRejected, Received
from libs.contracts.resources.turns import COMPANY_BACKLOG_FULL, ExecuteTurn, TurnCancelled, TurnFailed
from libs.eventing import CommandSender, Replies, ReplyState
from libs.tracing import bind_correlation_id
from services.gateway.domain.idempotency import IdempotencyRecord, KeyReused, OtherBody, Write
from services.gateway.domain.ports import IdempotencyStore
from services.gateway.use_cases.rates import Rates

_ACCEPTANCE_SECONDS: Final = 10.0
_DONE_SECONDS: Final = 30.0
_EXPIRES_SECONDS: Final = 120.0
NOT_ACCEPTED: Final = (
    "The request wasn't accepted in time. It may still be executed; retrying it with the same Idempotency-Key is safe."
)
_UNFINISHED: Final = (
    "The request was accepted but hasn't finished yet. It may still be executed; retrying it with the same"
    " Idempotency-Key is safe."
)
_TRANSIENT: Final = frozenset(
    {ErrorKind.RATE_LIMIT, ErrorKind.BUDGET, ErrorKind.QUOTA, ErrorKind.UNAVAILABLE, ErrorKind.TIMEOUT}
)
Make = Callable[[str], Command | Awaitable[Command]]
"""Builds the command with the given ID. May call other services and raise errors."""


@dataclass(frozen=True, slots=True)
class CommandDispatcher:
    """Sends commands, and waits for their outcomes. A retry finds the command of the first attempt.

    ``installed`` returns whether the installation has a service.
    """

    bus: CommandSender
    idempotency: IdempotencyStore
    installed: Callable[[str], bool]
    rates: Rates

    async def run(
        self,
        write: Write,
        command: Command,
        *,
        accepted_within: float | None = None,
    ) -> Received:
        """Sends a command and returns its terminal event. Raises the command's error if the command is refused or
        fails.

        ``accepted_within``: how many seconds the receiving service may take to accept the command, ten by default.
        """
        dispatched = self.dispatch(write, type(command), lambda _: command)
        return await self._outcome(dispatched, accepted_within)

    async def create(self, write: Write, command: type[Command], make: Make) -> Received:
        """Like ``run``, but creates an entity. The command's ID becomes the entity's ID, so a retry finds it."""
        return await self._outcome(self.dispatch(write, command, make))

    async def _outcome(
        self, dispatched: AbstractAsyncContextManager[Replies], accepted_within: float | None = None
    ) -> Received:
        accepted_within = accepted_within or _ACCEPTANCE_SECONDS
        async with dispatched as replies:
            received = await replies.outcome(accepted_within)
            # A service that has accepted the command will finish it.
            if received is None and replies.state is not ReplyState.WAITING:
                received = await replies.outcome(_DONE_SECONDS - accepted_within)
            if received is None:
                raise TimedOut(NOT_ACCEPTED if replies.state is ReplyState.WAITING else _UNFINISHED)
            raise_failure(received)
            return received

    @asynccontextmanager
    async def dispatch(
        self,
        write: Write,
        command: type[Command],
        make: Make,
    ) -> AsyncIterator[Replies]:
        """Sends the command, unless the receiving service already has it, and yields the replies."""
        if not self.installed(command.TOPIC.owner):
            raise ServiceUnavailable(f"This installation doesn't include the {command.TOPIC.owner} service.")
        company_id = write.identity.company_id
        if command is ExecuteTurn and self.rates.has_full_backlog(company_id) and not await self._may_be_repeat(write):
            # Checked before a new key's row is written: otherwise, each refusal during a flood would write a row.
            self.rates.check_backlog(company_id)
        record = await self._record(write)
        while True:
            # Subscribe before the lookup, so that the outcome is either received or found.
            async with self.bus.replies(record.command_id, command, write.identity) as replies:
                outcome = await replies.look_up() if record.repeated else None
                if not _is_refused_for_now(outcome):
                    if outcome is not None:
                        replies.arrive(outcome)
                    if not replies.is_repeat:
                        if command is ExecuteTurn:
                            await self.rates.take_turn(company_id)
                        made = make(record.command_id)
                        await self._send(write, record, await made if isawaitable(made) else made)
                    try:
                        yield replies
                    except RateLimited as refusal:
                        if any(detail.type == COMPANY_BACKLOG_FULL for detail in refusal.details or ()):
                            raise self.rates.backlog_is_full(company_id, refusal) from None
                        raise
                    return
            # The upstream did nothing and will keep refusing this command ID, so the retry needs a new ID.
            record = await self._renewed(write, record)

    async def _send(self, write: Write, record: IdempotencyRecord, command: Command) -> None:
        await self.bus.send(
            command,
            subject=command.subject() or record.command_id,
            command_id=record.command_id,
            correlation_id=record.correlation_id,
            identity=write.identity,
            expires_in=_EXPIRES_SECONDS,
            traceparent=write.traceparent,
        )

    async def _may_be_repeat(self, write: Write) -> bool:
        if write.request is None:
            return write.command_id is not None
        return await self.idempotency.find(write.request) is not None

    async def _record(self, write: Write) -> IdempotencyRecord:
        if write.command_id is not None:
            # It's unknown whether this is the first request with this ID, so treat it as a retry.
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

    async def _renewed(self, write: Write, refused: IdempotencyRecord) -> IdempotencyRecord:
        if write.request is None:
            # Concurrent retries may send several commands, but only one of them creates the entity.
            return IdempotencyRecord(command_id=new_id(), correlation_id=write.correlation_id)
        return await self.idempotency.renew(
            write.request,
            refused=refused.command_id,
            command_id=new_id(),
            correlation_id=write.correlation_id,
        )


def _is_refused_for_now(outcome: Received | None) -> bool:
    """Returns whether the command had no effect and may be accepted later."""
    if outcome is None or not outcome.envelope.type.endswith(".rejected.v1"):
        return False
    return CommandRejected.decode(outcome.payload).error.type in _TRANSIENT


def raise_failure(received: Received) -> None:
    """Raises the command's error if the command was refused, failed or was cancelled."""
    event_type = received.envelope.type
    if event_type.endswith(".rejected.v1"):
        raise error_from(CommandRejected.decode(received.payload).error)
    if event_type == TurnFailed.TYPE:
        raise error_from(TurnFailed.decode(received.payload).error)
    if event_type == TurnCancelled.TYPE:
        raise Conflict("The turn was cancelled.")
