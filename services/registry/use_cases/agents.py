"""Creates, updates and deletes stored agents. Checks run before the transaction, since they call other services."""

from dataclasses import dataclass
from datetime import UTC, datetime

from libs.contracts.errors import Conflict, InvalidRequest
from libs.contracts.identifiers import is_id
from libs.contracts.messages import CommandContext
from libs.contracts.resources.agents import (
    AgentCreated,
    AgentDeleted,
    AgentUpdated,
    CreateAgent,
    DeleteAgent,
    UpdateAgent,
)
from libs.eventing import Transaction
from services.registry.adapters.postgres.agents import PostgresAgentReader, PostgresAgentWriter
from services.registry.domain.agent import agent_errors, new_agent, require_writable
from services.registry.domain.agent_key import candidates
from services.registry.domain.findings import reject
from services.registry.use_cases.configurations import Configurations

# There are 27^6 suffixes, so a second collision means that something else is wrong.
_KEYS_TO_TRY = 5


@dataclass(frozen=True, slots=True)
class Agents:
    reader: PostgresAgentReader
    configurations: Configurations

    async def check_new(self, command: CreateAgent, context: CommandContext) -> None:
        """Checks a new agent. Raises ``InvalidConfiguration``, or ``InvalidRequest`` if its ID isn't a UUID."""
        if not is_id(command.agent_id):
            raise InvalidRequest("Invalid agent_id. Use a UUID.")
        reject(agent_errors(command.agent))
        await self.configurations.require(command.agent, context.identity)

    async def create(self, transaction: Transaction, command: CreateAgent, context: CommandContext, _: None) -> None:
        """Stores a new agent. Raises ``Conflict`` if its ID is taken or no key is free."""
        agents, keys, now = PostgresAgentWriter(transaction), candidates(command.agent.name), datetime.now(UTC)
        for _attempt in range(_KEYS_TO_TRY):
            agent = new_agent(
                agent_id=command.agent_id, agent_key=next(keys), body=command.agent, owner=context.identity, now=now
            )
            if await agents.add(agent):
                transaction.emit(AgentCreated(agent=agent.public()), subject=agent.id, owner_id=agent.visible_only_to)
                return
        raise Conflict("No agent key is available for this name. Choose another name.")

    async def check_change(self, command: UpdateAgent, context: CommandContext) -> None:
        """Checks the changed parts of an agent, so that an agent whose tool has disappeared can be renamed.

        Raises ``AgentNotFound``, ``PermissionDenied`` or ``InvalidConfiguration``.
        """
        agent = require_writable(await self.reader.get(command.agent_id), context.identity)
        reject(agent_errors(command.changes))
        after = agent.changed(command.changes, datetime.now(UTC))
        await self.configurations.require(after.configuration(), context.identity, command.changes.model_fields_set)

    async def update(self, transaction: Transaction, command: UpdateAgent, context: CommandContext, _: None) -> None:
        """Applies the changes to the agent's current state, which may be newer than the checked state."""
        agents = PostgresAgentWriter(transaction)
        agent = require_writable(await agents.lock(command.agent_id), context.identity)
        after = agent.changed(command.changes, datetime.now(UTC))
        if after is not agent:
            await agents.save(agent, after, context.identity.user_id)
        transaction.emit(AgentUpdated(agent=after.public()), subject=agent.id, owner_id=after.visible_only_to)

    async def delete(self, transaction: Transaction, command: DeleteAgent, context: CommandContext) -> None:
        """Deletes an agent, but not its sessions. Raises ``AgentNotFound`` or ``PermissionDenied``."""
        agents = PostgresAgentWriter(transaction)
        agent = require_writable(await agents.lock(command.agent_id), context.identity)
        await agents.delete(agent, datetime.now(UTC))
        deleted = AgentDeleted(agent_id=agent.id, agent_key=agent.agent_key)
        transaction.emit(deleted, subject=agent.id, owner_id=agent.visible_only_to)
