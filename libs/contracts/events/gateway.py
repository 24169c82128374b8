"""What happens to credentials."""

from libs.contracts.messages import Event
from libs.contracts.topics import GATEWAY_EVENTS


class GatewayEvent(Event):
    TOPIC = GATEWAY_EVENTS


class ApiKeyCreated(GatewayEvent):
    TYPE = "aes.gateway.api_key.created.v1"

    key_id: str
    prefix: str
    user_id: str


class ApiKeyRevoked(GatewayEvent):
    """Every replica drops what it knows of the key."""

    TYPE = "aes.gateway.api_key.revoked.v1"

    key_id: str


class ConnectionCreated(GatewayEvent):
    """A key for web pages was made, for visitors of one agent."""

    TYPE = "aes.gateway.connection.created.v1"

    connection_id: str
    agent_id: str
    user_id: str


class ConnectionDeleted(GatewayEvent):
    """Every replica drops what it knows of the connection and ends its visitors' streams."""

    TYPE = "aes.gateway.connection.deleted.v1"

    connection_id: str
