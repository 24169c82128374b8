"""Remove a stored agent with its versions."""

from libs.contracts.commands.registry import DeleteAgent
from libs.contracts.events.registry import AgentDeleted
from libs.contracts.identity import Identity
from services.registry.domain.agent import AgentNotFound
from services.registry.domain.ports import AgentWriter


async def delete_agent(agents: AgentWriter, command: DeleteAgent, caller: Identity) -> AgentDeleted:
    """Sessions keep their configuration. Raises ``AgentNotFound`` or ``PermissionDenied``."""
    agent = await agents.lock(command.agent_id)
    if agent is None:
        raise AgentNotFound()
    agent.require_writable(caller)
    await agents.delete(agent)
    return AgentDeleted(agent_id=agent.id, agent_key=agent.agent_key)
