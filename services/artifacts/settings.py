"""Settings of the artifacts service, from the environment."""

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from libs.quotas import QuotaSettings
from libs.service_defaults import ServiceSettings


class ArtifactsSettings(QuotaSettings, ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="AES_ARTIFACTS_", extra="ignore", populate_by_name=True)

    objects_url: SecretStr
    public_url: str = ""
    """The gateway's address in links; its internal address when empty."""
    link_seconds: int = Field(14_400, ge=1, le=604_800)
    max_upload_bytes: int = Field(52_428_800, ge=1)
    max_image_pixels: int = Field(100_000_000, ge=1)
    table_processes: int = Field(2, ge=1, le=64)
    table_timeout_seconds: float = Field(60.0, gt=0)
    table_memory_bytes: int = Field(1_073_741_824, ge=128 * 1024**2)
    lease_seconds: float = Field(20.0, ge=1)
