"""API keys."""

from typing import Any, ClassVar

from libs.contracts.messages import Event


class ApiKeyCreated(Event, type="aes.gateway.api_key.created.v1"):
    """``replaces``: the key that it was made from by a rotation, which ends after its grace."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "by a rotation": {"prefix": "aes_k3Vd", "replaces": "01980f4e-2d10-7a83-b2c4-5d6e7f8091a3"}
    }

    key_id: str
    prefix: str
    user_id: str
    replaces: str | None = None


class ApiKeyRevoked(Event, type="aes.gateway.api_key.revoked.v1"):
    """A key was revoked. Every gateway replica removes it from its cache."""

    key_id: str
