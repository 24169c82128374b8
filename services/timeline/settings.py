"""The timeline's settings, read from the environment."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from libs.outbound import OutboundSettings
from libs.secrets import SecretsSettings
from libs.service_defaults import ServiceSettings


class TimelineSettings(OutboundSettings, SecretsSettings, ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="AES_TIMELINE_")

    days: int = Field(30, ge=1, le=3650, description="Days (UTC) for which the timeline keeps events.")
    usage_days: int = Field(400, ge=1, le=36500, description="Days for which usage is kept.")
    webhook_attempts: int = Field(
        256,
        ge=1,
        le=4096,
        description="Maximum number of concurrent calls per `webhooks` process. A company gets at most an eighth.",
    )
