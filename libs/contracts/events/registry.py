"""Events of the registry: stored agents, toolsets and secrets."""

from libs.contracts.api.agents import Agent
from libs.contracts.api.toolsets import Secret, Toolset
from libs.contracts.messages import Event


class AgentCreated(Event, type="aes.registry.agent.created.v1"):
    agent: Agent


class AgentUpdated(Event, type="aes.registry.agent.updated.v1"):
    """An agent has changed. ``version_number`` is a new one when its configuration has changed."""

    agent: Agent


class AgentDeleted(Event, type="aes.registry.agent.deleted.v1"):
    agent_id: str
    agent_key: str


class ToolsetCreated(Event, type="aes.registry.toolset.created.v1"):
    toolset: Toolset


class ToolsetUpdated(Event, type="aes.registry.toolset.updated.v1"):
    """A toolset has changed. ``version`` is a new one unless the change changed nothing."""

    toolset: Toolset


class ToolsetRefreshed(Event, type="aes.registry.toolset.refreshed.v1"):
    """A toolset's tools were asked for again. ``version`` is a new one when they are others."""

    toolset: Toolset


class ToolsetDeleted(Event, type="aes.registry.toolset.deleted.v1"):
    name: str


class SecretStored(Event, type="aes.registry.secret.stored.v1"):
    """A secret is new or has a new value, which no message carries."""

    secret: Secret


class SecretDeleted(Event, type="aes.registry.secret.deleted.v1"):
    name: str
