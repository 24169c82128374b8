"""Handles events that revoke credentials or change their rights."""

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
    """Updates caches and ends open streams when a credential changes.

    A public key's identifier is the ID of its agent or connection.
    """

    principals: Principals
    agents: Agents
    streams: EventStreams

    def changed(self, identifier: str) -> None:
        """Drops the credential from the caches."""
        self.principals.forget(identifier)
        self.agents.forget(identifier)

    def withdrawn(self, identifier: str) -> None:
        """Drops the credential from the caches and ends its streams. The credential may become valid again."""
        self.changed(identifier)
        self.streams.end(identifier)

    def revoked(self, identifier: str) -> None:
        """Drops the credential from the caches, ends its streams, and refuses new streams."""
        self.changed(identifier)
        self.streams.refuse(identifier)

    def listen(self, sender: CommandSender) -> None:
        """Subscribes to events that change credentials."""
        for event in (ApiKeyRevoked, ConnectionDeleted, AgentDeleted):
            sender.on_event(event.TYPE, lambda envelope, _: self.revoked(envelope.subject))
        # A page may have used the key before the agent existed, and the miss is cached.
        sender.on_event(AgentCreated.TYPE, lambda envelope, _: self.changed(envelope.subject))
        sender.on_event(AgentUpdated.TYPE, self._agent_updated)

    def _agent_updated(self, envelope: Envelope, payload: bytes) -> None:
        agent = AgentUpdated.decode(payload).agent
        usable = agent.is_public and agent.allowed_origins
        (self.changed if usable else self.withdrawn)(envelope.subject)
