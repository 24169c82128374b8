"""Commands to the registry."""

from typing import Any

from libs.contracts.events.registry import AgentCreated, AgentDeleted, AgentUpdated
from libs.contracts.messages import Command


class CreateAgent(Command, type="aes.registry.create_agent.v1", outcomes=(AgentCreated,)):
    """Store an agent; ``agent`` is a ``CreateAgentBody``."""

    agent_id: str
    agent: dict[str, Any]


class UpdateAgent(Command, type="aes.registry.update_agent.v1", outcomes=(AgentUpdated,)):
    """Fields left out of ``changes`` (an ``UpdateAgentBody``) stay as they are."""

    agent_id: str
    changes: dict[str, Any]


class DeleteAgent(Command, type="aes.registry.delete_agent.v1", outcomes=(AgentDeleted,)):
    agent_id: str
