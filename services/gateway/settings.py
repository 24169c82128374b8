"""Settings of the gateway, from the environment."""

from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from libs.contracts.origins import canonical_origin
from libs.outbound import OutboundSettings
from libs.secrets import SecretsSettings
from libs.service_defaults import ServiceSettings


class GatewaySettings(OutboundSettings, SecretsSettings, ServiceSettings):
    """``cors_origins``: origins, separated by commas, whose pages may read answers without a public key.

    ``timeline_days``: how long events stay in the timeline. ``usage_days``: how long usage is kept.
    ``webhook_attempts``: calls of webhooks that one process makes at the same time; a company gets an eighth of them.
    """

    model_config = SettingsConfigDict(env_prefix="AES_GATEWAY_")

    cors_origins: str = ""
    timeline_days: int = Field(30, ge=1, le=3650)
    usage_days: int = Field(400, ge=1, le=36500)
    webhook_attempts: int = Field(256, ge=1, le=4096)

    @field_validator("cors_origins")
    @classmethod
    def _check(cls, text: str) -> str:
        return ",".join(canonical_origin(part.strip()) for part in text.split(",") if part.strip())

    def shared_origins(self) -> frozenset[str]:
        return frozenset(filter(None, self.cors_origins.split(",")))
