"""The settings of the registry, read from the environment."""

from pydantic_settings import SettingsConfigDict

from libs.service_defaults import ServiceSettings


class RegistrySettings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="AES_REGISTRY_")
