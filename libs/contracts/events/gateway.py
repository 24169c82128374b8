"""Events of the gateway: credentials."""

from libs.contracts.messages import Event


class ApiKeyCreated(Event, type="aes.gateway.api_key.created.v1"):
    """``replaces``: the key that it was made from by a rotation, which ends after its grace."""

    key_id: str
    prefix: str
    user_id: str
    replaces: str | None = None


class ApiKeyRevoked(Event, type="aes.gateway.api_key.revoked.v1"):
    """A key was revoked. Every gateway replica removes it from its cache."""

    key_id: str


class ConnectionCreated(Event, type="aes.gateway.connection.created.v1"):
    """A key for web pages was made, for visitors of one agent."""

    connection_id: str
    agent_id: str
    user_id: str


class ConnectionDeleted(Event, type="aes.gateway.connection.deleted.v1"):
    """A connection was revoked. Every gateway replica removes it from its cache and ends its visitors' streams."""

    connection_id: str
