"""Events about keys, connections and agents that end credentials or change their rights."""

from dataclasses import dataclass

from libs.contracts.messages import Envelope
from libs.contracts.resources.agents import AgentCreated, AgentDeleted, AgentUpdated
from libs.contracts.resources.connections import ConnectionDeleted
from libs.contracts.resources.keys import ApiKeyRevoked
from libs.eventing import CommandSender
from services.gateway.entrypoints.door.streams import EventStreams
from services.gateway.use_cases.agents import Agents
from services.gateway.use_cases.principals import Principals


@dataclass(frozen=True, slots=True)
class Credentials:
    """Notifies caches of credentials, by credential ID; an agent stands for its public key."""

    principals: Principals
    agents: Agents
    streams: EventStreams

    def changed(self, identifier: str) -> None:
        """It must be looked up again."""
        self.principals.forget(identifier)
        self.agents.forget(identifier)

    def withdrawn(self, identifier: str) -> None:
        """It is suspended, and its streams end."""
        self.changed(identifier)
        self.streams.end(identifier)

    def revoked(self, identifier: str) -> None:
        """It has ended for good, and its streams end."""
        self.changed(identifier)
        self.streams.refuse(identifier)

    def listen(self, sender: CommandSender) -> None:
        """The subject of each such event is the credential's ID."""
        for event in (ApiKeyRevoked, ConnectionDeleted, AgentDeleted):
            sender.on_event(event.TYPE, lambda envelope, _: self.revoked(envelope.subject))
        # A page may have used an agent's key before the agent existed.
        sender.on_event(AgentCreated.TYPE, lambda envelope, _: self.changed(envelope.subject))
        sender.on_event(AgentUpdated.TYPE, self._agent_updated)

    def _agent_updated(self, envelope: Envelope, payload: bytes) -> None:
        agent = AgentUpdated.decode(payload).agent
        usable = agent.is_public and agent.allowed_origins
        (self.changed if usable else self.withdrawn)(envelope.subject)
