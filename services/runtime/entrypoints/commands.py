"""What comes in on runtime-commands."""

from __future__ import annotations

from typing import Protocol

from libs.contracts.commands.runtime import CancelTurn, CreateSession, DeleteSession, ExecuteTurn
from libs.contracts.errors import ServiceError
from libs.eventing import AlreadyProcessed, CommandContext, CommandRouter
from services.runtime.domain.ports import StoreUnavailable
from services.runtime.domain.reads import SessionReads
from services.runtime.domain.turns import AlreadyKnown, Refused
from services.runtime.use_cases.accept_turn import AcceptTurn
from services.runtime.use_cases.cancel_turn import CancelTurnHandler
from services.runtime.use_cases.create_session import CreateSessionHandler
from services.runtime.use_cases.delete_session import DeleteSessionHandler


class Handlers(Protocol):
    @property
    def take_in(self) -> AcceptTurn: ...
    @property
    def create(self) -> CreateSessionHandler: ...
    @property
    def cancel(self) -> CancelTurnHandler: ...
    @property
    def delete(self) -> DeleteSessionHandler: ...


class RuntimeCommands:
    def __init__(self, handlers: Handlers, reads: SessionReads) -> None:
        self._handlers = handlers
        self._reads = reads

    def register(self, router: CommandRouter) -> None:
        router.handle_raw(ExecuteTurn, self.execute)
        router.handle(CreateSession, self._handlers.create)
        router.handle(CancelTurn, self._handlers.cancel)
        # The outcome follows when the running turn has stopped.
        router.handle(DeleteSession, self._handlers.delete, ends_later=True)
        router.lookups.append(self._reads.knows_command)

    async def execute(self, command: ExecuteTurn, context: CommandContext) -> ServiceError | None:
        """The refusal that was recorded, if any. Raises ``AlreadyProcessed`` for a redelivery."""
        taking = self._handlers.take_in.take_in(command, context.command_id, context.identity, context.message)
        try:
            result = await taking
        except StoreUnavailable as problem:
            # The consumer knows the driver's outages: they do not count towards giving a command up.
            raise problem.__cause__ or problem from None
        if isinstance(result, AlreadyKnown):
            raise AlreadyProcessed(context.command_id)
        return result.error if isinstance(result, Refused) else None
