"""Events of the gateway: credentials and webhooks."""

from libs.contracts.messages import Event


class ApiKeyCreated(Event, type="aes.gateway.api_key.created.v1"):
    key_id: str
    prefix: str
    user_id: str


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


class WebhookCreated(Event, type="aes.gateway.webhook.created.v1"):
    webhook_id: str
    user_id: str
    event_types: list[str]


class WebhookUpdated(Event, type="aes.gateway.webhook.updated.v1"):
    """Its address, event types, description or status was changed, or it was given a new secret."""

    webhook_id: str
    user_id: str
    event_types: list[str]
    status: str


class WebhookDisabled(Event, type="aes.gateway.webhook.disabled.v1"):
    """Nothing is delivered to it any more until somebody enables it.

    ``reason``: ``gone`` (it answered 410), ``unreachable`` (nothing was delivered for five days), ``key_revoked`` (the
    API key that it was made with) or ``requested``.
    """

    webhook_id: str
    user_id: str
    reason: str


class WebhookDeleted(Event, type="aes.gateway.webhook.deleted.v1"):
    webhook_id: str
    user_id: str
