"""Handlers for the topic runtime-commands."""

from dataclasses import dataclass

from libs.contracts.errors import ServiceError
from libs.contracts.messages import CommandContext
from libs.contracts.resources import actions, sessions, turns
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
    """The use cases behind the commands."""

    admit: AdmitTurn
    create: CreateSession
    change: ChangeSession
    cancel: CancelTurn
    resolve: ResolveWait
    deletion: DeleteSession


def register_commands(router: CommandRouter, handlers: Handlers, reads: SessionReads) -> None:
    async def execute_turn(command: turns.ExecuteTurn, context: CommandContext) -> ServiceError | None:
        """Returns the recorded rejection, if any. Raises ``AlreadyProcessed`` for a redelivery."""
        decision = await handlers.admit(command, context)
        if isinstance(decision, Duplicate):
            raise AlreadyProcessed(context.command_id)
        return decision.error if isinstance(decision, Refused) else None

    router.handle_raw(turns.ExecuteTurn, execute_turn)
    router.handle_raw(sessions.CreateSession, handlers.create)
    router.handle(sessions.ForkSession, handlers.change.fork)
    router.handle(sessions.UpdateSession, handlers.change.update)
    router.handle(sessions.AddMessages, handlers.change.add_messages)
    router.handle(turns.CancelTurn, handlers.cancel)
    router.handle(actions.ResolveAction, handlers.resolve)
    # The outcome follows when the running turn has stopped.
    router.handle(sessions.DeleteSession, handlers.deletion.delete, ends_later=True)
    router.lookups.append(reads.knows_command)
