"""Handlers of the topic runtime-commands."""

from libs.contracts.commands import runtime as commands
from libs.contracts.errors import ServiceError
from libs.contracts.messages import CommandContext
from libs.eventing import AlreadyProcessed, CommandRouter
from services.runtime.domain.admission import Duplicate, Refused
from services.runtime.domain.ports import SessionReads
from services.runtime.use_cases.accept_turn import AcceptTurn
from services.runtime.use_cases.add_messages import AddMessages
from services.runtime.use_cases.cancel_turn import CancelTurn
from services.runtime.use_cases.change_budgets import BudgetChanges
from services.runtime.use_cases.create_session import CreateSession
from services.runtime.use_cases.delete_session import DeleteSession
from services.runtime.use_cases.fork_session import ForkSession
from services.runtime.use_cases.resolve_action import ResolveAction
from services.runtime.use_cases.set_retention import SetRetention
from services.runtime.use_cases.update_session import UpdateSession


def register_commands(
    router: CommandRouter,
    accept: AcceptTurn,
    create: CreateSession,
    cancel: CancelTurn,
    delete: DeleteSession,
    resolve: ResolveAction,
    fork: ForkSession,
    update: UpdateSession,
    add_messages: AddMessages,
    budgets: BudgetChanges,
    set_retention: SetRetention,
    reads: SessionReads,
) -> None:
    async def execute_turn(command: commands.ExecuteTurn, context: CommandContext) -> ServiceError | None:
        """The refusal that was recorded, if any. Raises ``AlreadyProcessed`` for a redelivery."""
        decision = await accept(command, context)
        if isinstance(decision, Duplicate):
            raise AlreadyProcessed(context.command_id)
        return decision.error if isinstance(decision, Refused) else None

    router.handle_raw(commands.ExecuteTurn, execute_turn)
    router.handle_raw(commands.CreateSession, create)
    router.handle(commands.ForkSession, fork)
    router.handle(commands.UpdateSession, update)
    router.handle(commands.AddMessages, add_messages)
    router.handle(commands.CancelTurn, cancel)
    router.handle(commands.CreateBudget, budgets.create)
    router.handle(commands.UpdateBudget, budgets.update)
    router.handle(commands.DeleteBudget, budgets.delete)
    router.handle(commands.SetRetention, set_retention)
    router.handle(commands.ResolveAction, resolve)
    # The outcome follows when the running turn has stopped.
    router.handle(commands.DeleteSession, delete, ends_later=True)
    router.lookups.append(reads.knows_command)
