"""Events of the registry: stored agents."""

from libs.contracts.api.agents import Agent
from libs.contracts.messages import Event


class AgentCreated(Event, type="aes.registry.agent.created.v1"):
    agent: Agent


class AgentUpdated(Event, type="aes.registry.agent.updated.v1"):
    """An agent has changed. ``version_number`` is a new one when its configuration has changed."""

    agent: Agent


class AgentDeleted(Event, type="aes.registry.agent.deleted.v1"):
    agent_id: str
    agent_key: str
