"""Commands on ``registry-commands``: each ends in the event its use case returns, or in a rejection."""

from collections.abc import Callable

from libs.contracts.api.agents import CreateAgentBody, UpdateAgentBody
from libs.contracts.commands.registry import CreateAgent, DeleteAgent, UpdateAgent
from libs.eventing import CommandContext, CommandRouter, Transaction
from services.registry.domain.ports import AgentWriter
from services.registry.use_cases.create_agent import AgentCreation
from services.registry.use_cases.delete_agent import delete_agent
from services.registry.use_cases.update_agent import AgentChange


class AgentCommands:
    def __init__(
        self, creation: AgentCreation, change: AgentChange, writer: Callable[[Transaction], AgentWriter]
    ) -> None:
        self._creation = creation
        self._change = change
        self._writer = writer

    def register(self, router: CommandRouter) -> None:
        router.handle_prepared(CreateAgent, self._prepare_create, self._create)
        router.handle_prepared(UpdateAgent, self._prepare_update, self._update)
        router.handle(DeleteAgent, self._delete)

    async def _prepare_create(self, command: CreateAgent, context: CommandContext) -> CreateAgentBody:
        return await self._creation.prepare(command, context.identity)

    async def _create(
        self, transaction: Transaction, command: CreateAgent, context: CommandContext, body: CreateAgentBody
    ) -> None:
        created = await self._creation.create(self._writer(transaction), command, body, context.identity)
        transaction.emit(created, subject=command.agent_id)

    async def _prepare_update(self, command: UpdateAgent, context: CommandContext) -> UpdateAgentBody:
        return await self._change.prepare(command, context.identity)

    async def _update(
        self,
        transaction: Transaction,
        command: UpdateAgent,
        context: CommandContext,
        changes: UpdateAgentBody,
    ) -> None:
        updated = await self._change.change(self._writer(transaction), command, changes, context.identity)
        transaction.emit(updated, subject=command.agent_id)

    async def _delete(self, transaction: Transaction, command: DeleteAgent, context: CommandContext) -> None:
        deleted = await delete_agent(self._writer(transaction), command, context.identity)
        transaction.emit(deleted, subject=command.agent_id)
