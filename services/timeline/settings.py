"""Settings of the timeline, from the environment."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from libs.outbound import OutboundSettings
from libs.secrets import SecretsSettings
from libs.service_defaults import ServiceSettings


class TimelineSettings(OutboundSettings, SecretsSettings, ServiceSettings):
    """``days``: how long events stay. ``usage_days``: how long usage is kept.

    ``webhook_attempts``: calls of webhooks that one process makes at the same time; a company gets an eighth of them.
    """

    model_config = SettingsConfigDict(env_prefix="AES_TIMELINE_")

    days: int = Field(30, ge=1, le=3650)
    usage_days: int = Field(400, ge=1, le=36500)
    webhook_attempts: int = Field(256, ge=1, le=4096)
