"""Opens a session."""

from __future__ import annotations

from libs.contracts.commands.runtime import CreateSession
from libs.contracts.errors import Conflict, ValidationFailed
from libs.contracts.events.runtime import SessionCreated
from libs.contracts.identifiers import is_id
from libs.eventing import CommandContext, Transaction
from services.runtime.domain.agent_ports import AgentSpec
from services.runtime.domain.sessions import NewSession, OpenWriter


class CreateSessionHandler:
    def __init__(self, writer: OpenWriter) -> None:
        self._writer = writer

    async def __call__(self, transaction: Transaction, command: CreateSession, context: CommandContext) -> None:
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
        if not await self._writer(transaction).add(session):
            raise Conflict("there is, or was, a session with this id")
        transaction.emit(
            SessionCreated(
                session_id=session.id,
                config_hash=session.config_hash,
                agent_id=session.agent_id,
                owner_id=session.owner_id,
            ),
            subject=session.id,
        )
