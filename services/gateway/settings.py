"""What the gateway reads from the environment."""

from pydantic_settings import SettingsConfigDict

from libs.service_defaults import ServiceSettings


class GatewaySettings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="AES_GATEWAY_")
