"""What the ingestion service reads from the environment."""

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from libs.service_defaults import ServiceSettings


class IngestionSettings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="AES_INGESTION_", extra="ignore", populate_by_name=True)

    objects_url: SecretStr
    max_upload_bytes: int = Field(52_428_800, ge=1)
    max_files_per_upload: int = Field(100, ge=1, le=1000)
