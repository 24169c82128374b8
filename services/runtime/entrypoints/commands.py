"""Handlers of the topic runtime-commands."""

from dataclasses import dataclass

from libs.contracts.commands import runtime as commands
from libs.contracts.errors import ServiceError
from libs.contracts.messages import CommandContext
from libs.eventing import AlreadyProcessed, CommandRouter
from services.runtime.domain.admission import Duplicate, Refused
from services.runtime.domain.ports import SessionReads
from services.runtime.use_cases.admit_turn import AdmitTurn
from services.runtime.use_cases.cancel_turn import CancelTurn
from services.runtime.use_cases.resolve_wait import ResolveWait
from services.runtime.use_cases.sessions.change import ChangeSession
from services.runtime.use_cases.sessions.create import CreateSession
from services.runtime.use_cases.sessions.delete import DeleteSession


@dataclass(frozen=True, slots=True)
class Handlers:
    """The use cases that carry out commands."""

    admit: AdmitTurn
    create: CreateSession
    change: ChangeSession
    cancel: CancelTurn
    resolve: ResolveWait
    deletion: DeleteSession


def register_commands(router: CommandRouter, handlers: Handlers, reads: SessionReads) -> None:
    async def execute_turn(command: commands.ExecuteTurn, context: CommandContext) -> ServiceError | None:
        """The refusal that was recorded, if any. Raises ``AlreadyProcessed`` for a redelivery."""
        decision = await handlers.admit(command, context)
        if isinstance(decision, Duplicate):
            raise AlreadyProcessed(context.command_id)
        return decision.error if isinstance(decision, Refused) else None

    router.handle_raw(commands.ExecuteTurn, execute_turn)
    router.handle_raw(commands.CreateSession, handlers.create)
    router.handle(commands.ForkSession, handlers.change.fork)
    router.handle(commands.UpdateSession, handlers.change.update)
    router.handle(commands.AddMessages, handlers.change.add_messages)
    router.handle(commands.CancelTurn, handlers.cancel)
    router.handle(commands.ResolveAction, handlers.resolve)
    # The outcome follows when the running turn has stopped.
    router.handle(commands.DeleteSession, handlers.deletion.delete, ends_later=True)
    router.lookups.append(reads.knows_command)
