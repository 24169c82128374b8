"""Connections: keys for web pages, for visitors of one agent."""

from typing import Any, ClassVar

from libs.contracts.messages import Event


class ConnectionCreated(Event, type="aes.gateway.connection.created.v1"):
    """A key for web pages was made, for visitors of one agent."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "help on a web site": {"connection_id": "01980f5a-11d4-7c35-9b1e-3f2a1b0c9d8e"}
    }

    connection_id: str
    agent_id: str
    user_id: str


class ConnectionDeleted(Event, type="aes.gateway.connection.deleted.v1"):
    """A connection was revoked. Every gateway replica removes it from its cache and ends its visitors' streams."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "help on a web site": {"connection_id": "01980f5a-11d4-7c35-9b1e-3f2a1b0c9d8e"}
    }

    connection_id: str
