"""Connections: keys for web pages, for visitors of one agent."""

from libs.contracts.messages import Event


class ConnectionCreated(Event, type="aes.gateway.connection.created.v1"):
    """A key for web pages was made, for visitors of one agent."""

    connection_id: str
    agent_id: str
    user_id: str


class ConnectionDeleted(Event, type="aes.gateway.connection.deleted.v1"):
    """A connection was revoked. Every gateway replica removes it from its cache and ends its visitors' streams."""

    connection_id: str
