"""Creates a session with a fixed agent configuration."""

from dataclasses import dataclass

from libs.contracts.commands import runtime as commands
from libs.contracts.errors import Conflict, ValidationFailed
from libs.contracts.events.runtime import SessionCreated
from libs.contracts.identifiers import is_id
from libs.eventing import CommandContext, Transaction
from services.runtime.domain.agents import AgentSpec
from services.runtime.domain.sessions import NewSession, OpenWriter


@dataclass(frozen=True, slots=True)
class CreateSession:
    open_writer: OpenWriter

    async def __call__(
        self, transaction: Transaction, command: commands.CreateSession, context: CommandContext
    ) -> None:
        if not is_id(command.session_id):
            raise ValidationFailed("the session id is malformed")
        try:
            AgentSpec.from_config(command.agent_config)
        except (KeyError, TypeError, AttributeError) as problem:
            raise ValidationFailed("the agent configuration is not a normalised one") from problem
        session = NewSession(
            id=command.session_id,
            company_id=context.identity.company_id,
            owner_id=context.identity.user_id,
            agent_id=command.agent_id,
            config=command.agent_config,
            config_hash=command.config_hash,
        )
        if not await self.open_writer(transaction).add(session):
            raise Conflict("there is, or was, a session with this id")
        transaction.emit(
            SessionCreated(
                session_id=session.id,
                config_hash=session.config_hash,
                agent_id=session.agent_id,
                owner_id=session.owner_id,
            ),
            subject=session.id,
            owner_id=session.owner_id,
        )
