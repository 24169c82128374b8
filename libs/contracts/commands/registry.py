"""What the registry is asked to do."""

from typing import Any

from libs.contracts.events.registry import AgentCreated, AgentDeleted, AgentUpdated
from libs.contracts.messages import Command
from libs.contracts.topics import REGISTRY_COMMANDS


class RegistryCommand(Command):
    TOPIC = REGISTRY_COMMANDS


class CreateAgent(RegistryCommand):
    """Store an agent; ``agent`` is a ``CreateAgentBody``."""

    TYPE = "aes.registry.create_agent.v1"
    OUTCOMES = (AgentCreated,)

    agent_id: str
    agent: dict[str, Any]


class UpdateAgent(RegistryCommand):
    """Fields left out of ``changes`` (an ``UpdateAgentBody``) stay as they are."""

    TYPE = "aes.registry.update_agent.v1"
    OUTCOMES = (AgentUpdated,)

    agent_id: str
    changes: dict[str, Any]


class DeleteAgent(RegistryCommand):
    TYPE = "aes.registry.delete_agent.v1"
    OUTCOMES = (AgentDeleted,)

    agent_id: str
