"""What happens in the registry."""

from libs.contracts.api.agents import Agent
from libs.contracts.messages import Event
from libs.contracts.topics import REGISTRY_EVENTS


class RegistryEvent(Event):
    TOPIC = REGISTRY_EVENTS


class AgentCreated(RegistryEvent):
    TYPE = "aes.registry.agent.created.v1"

    agent: Agent


class AgentUpdated(RegistryEvent):
    """``version_number`` of the agent is a new one when its configuration changed."""

    TYPE = "aes.registry.agent.updated.v1"

    agent: Agent


class AgentDeleted(RegistryEvent):
    TYPE = "aes.registry.agent.deleted.v1"

    agent_id: str
    agent_key: str
