"""Carrying out a write: a command to its upstream, and the event that ends it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from libs.contracts.errors import Conflict, ErrorKind, ServiceUnavailable, TimedOut, error_from
from libs.contracts.events.runtime import TurnCancelled, TurnFailed
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Command, CommandRejected
from libs.eventing import CommandState, Received
from services.gateway.domain.idempotency import IdempotencyRecord, IdempotentRequest, KeyReused, OtherBody
from services.gateway.domain.ports import CommandBus, IdempotencyStore, Replies

_TAKEN_UP_SECONDS: Final = 10.0
_DONE_SECONDS: Final = 30.0
_EXPIRES_SECONDS: Final = 120.0
NOT_TAKEN_UP: Final = (
    "The request was not taken up in time. It may still be carried out; repeating it with the same Idempotency-Key"
    " is safe."
)
_UNFINISHED: Final = (
    "The request was taken up but is not done yet. It may still be carried out; repeating it with the same"
    " Idempotency-Key is safe."
)
_TRANSIENT: Final = frozenset({ErrorKind.RATE_LIMIT, ErrorKind.UNAVAILABLE, ErrorKind.TIMEOUT})

Make = Callable[[str], Awaitable[Command]]
"""Makes the command for a command id; may ask other services and raise what the caller is told."""


@dataclass(slots=True, kw_only=True)
class Write:
    """One write of a caller. ``correlation_id`` becomes the recorded one when the write repeats an earlier one."""

    identity: Identity
    correlation_id: str
    request: IdempotentRequest | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class PendingCommand:
    """A command that was handed over, and what comes back for it.

    ``known``: its upstream has had it since an earlier request with the same idempotency key.
    """

    command_id: str
    replies: Replies
    known: bool = False


class CommandDispatcher:
    """Sends commands for callers and waits for their outcomes, also on behalf of repeated requests."""

    def __init__(
        self, bus: CommandBus, idempotency: IdempotencyStore, installed: Callable[[str], bool] = lambda _: True
    ) -> None:
        self._bus = bus
        self._idempotency = idempotency
        self._installed = installed

    async def run(self, write: Write, command: type[Command], make: Make, *, subject: str | None = None) -> Received:
        """The terminal event of the command; raises what it says when it is a refusal or a failure."""
        async with self.dispatch(write, command, make, subject=subject) as pending:
            replies = pending.replies
            received = await replies.outcome(_TAKEN_UP_SECONDS)
            # Who has taken it up will end it; who has not may never have seen it.
            taken = pending.known or replies.state == "taken"
            if received is None and taken:
                received = await replies.outcome(_DONE_SECONDS - _TAKEN_UP_SECONDS)
            if received is None:
                raise TimedOut(_UNFINISHED if taken else NOT_TAKEN_UP)
            raise_failure(received)
            return received

    @asynccontextmanager
    async def dispatch(
        self, write: Write, command: type[Command], make: Make, *, subject: str | None = None
    ) -> AsyncIterator[PendingCommand]:
        """Send the command, unless its upstream has it from an earlier request; listen for what it causes.

        ``subject`` is the entity it is about, by default one whose id is the command's.
        """
        if not self._installed(command.TOPIC.owner):
            raise ServiceUnavailable(f"This installation has no {command.TOPIC.owner} service.")
        record = await self._record(write)
        while True:
            # Listening before asking: an outcome that comes in between is heard, one that came before is told.
            async with self._bus.replies(record.command_id, command, write.identity) as replies:
                state = await self._state(command, record, write.identity)
                if write.request is None or not _is_refused_for_now(state):
                    if state.outcome is not None:
                        replies.arrive(state.outcome)
                    if not state.known:
                        await self._send(write, record, await make(record.command_id), subject)
                    yield PendingCommand(record.command_id, replies, state.known)
                    return
            # Its caller was told to try again: nothing was done, and a refused command stays refused.
            record = await self._idempotency.renew(
                write.request,
                refused=record.command_id,
                command_id=new_id(),
                correlation_id=write.correlation_id,
            )

    async def _send(self, write: Write, record: IdempotencyRecord, command: Command, subject: str | None) -> None:
        await self._bus.send(
            command,
            subject=subject or record.command_id,
            command_id=record.command_id,
            correlation_id=record.correlation_id,
            identity=write.identity,
            expires_in=_EXPIRES_SECONDS,
            traceparent=write.traceparent,
        )

    async def _record(self, write: Write) -> IdempotencyRecord:
        command_id = new_id()
        if write.request is None:
            return IdempotencyRecord(command_id=command_id, correlation_id=write.correlation_id)
        try:
            record = await self._idempotency.record(
                write.request, command_id=command_id, correlation_id=write.correlation_id
            )
        except KeyReused:
            raise OtherBody() from None
        write.correlation_id = record.correlation_id
        return record

    async def _state(self, command: type[Command], record: IdempotencyRecord, identity: Identity) -> CommandState:
        if not record.repeated:
            return CommandState(known=False)
        try:
            return await self._bus.knows(command, record.command_id, identity)
        except ServiceUnavailable:
            # Sending twice is safe: the upstream's inbox knows a command that it has carried out.
            return CommandState(known=False)


def _is_refused_for_now(state: CommandState) -> bool:
    """Whether the upstream did nothing and would answer otherwise later."""
    if state.outcome is None or not state.outcome.envelope.type.endswith(".rejected.v1"):
        return False
    return CommandRejected.decode(state.outcome.payload).error.type in _TRANSIENT


def raise_failure(received: Received) -> None:
    """Raise what a terminal event tells of refusal, failure or cancellation; nothing for a success."""
    event_type = received.envelope.type
    if event_type.endswith(".rejected.v1"):
        raise error_from(CommandRejected.decode(received.payload).error)
    if event_type == TurnFailed.TYPE:
        raise error_from(TurnFailed.decode(received.payload).error)
    if event_type == TurnCancelled.TYPE:
        raise Conflict("The turn was cancelled.")
