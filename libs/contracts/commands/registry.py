"""Commands to the registry."""

from typing import Any

from libs.contracts.events.registry import (
    AgentCreated,
    AgentDeleted,
    AgentUpdated,
    SecretDeleted,
    SecretStored,
    ToolsetCreated,
    ToolsetDeleted,
    ToolsetRefreshed,
    ToolsetUpdated,
)
from libs.contracts.messages import Command


class CreateAgent(Command, type="aes.registry.create_agent.v1", outcomes=(AgentCreated,)):
    """Store an agent; ``agent`` is a ``CreateAgentBody``."""

    agent_id: str
    agent: dict[str, Any]


class UpdateAgent(Command, type="aes.registry.update_agent.v1", outcomes=(AgentUpdated,), subject="agent_id"):
    """Fields left out of ``changes`` (an ``UpdateAgentBody``) stay as they are."""

    agent_id: str
    changes: dict[str, Any]


class DeleteAgent(Command, type="aes.registry.delete_agent.v1", outcomes=(AgentDeleted,), subject="agent_id"):
    agent_id: str


class CreateToolset(Command, type="aes.registry.create_toolset.v1", outcomes=(ToolsetCreated,)):
    """Ask for the tools of a toolset and store both; ``toolset`` is a ``CreateToolsetBody``."""

    toolset: dict[str, Any]


class UpdateToolset(Command, type="aes.registry.update_toolset.v1", outcomes=(ToolsetUpdated,)):
    """Fields left out of ``changes`` (an ``UpdateToolsetBody``) stay as they are."""

    name: str
    changes: dict[str, Any]


class RefreshToolset(Command, type="aes.registry.refresh_toolset.v1", outcomes=(ToolsetRefreshed,)):
    """Ask for the tools of a toolset again."""

    name: str


class DeleteToolset(Command, type="aes.registry.delete_toolset.v1", outcomes=(ToolsetDeleted,)):
    name: str


class PutSecret(Command, type="aes.registry.put_secret.v1", outcomes=(SecretStored,)):
    """Store a secret, or another value for it; ``ciphertext`` in base64, bound to ``secret_place``."""

    name: str
    ciphertext: str


class DeleteSecret(Command, type="aes.registry.delete_secret.v1", outcomes=(SecretDeleted,)):
    name: str
