"""The settings of the artifacts service, read from the environment."""

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from libs.quotas import QuotaSettings
from libs.service_defaults import ServiceSettings


class ArtifactsSettings(QuotaSettings, ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="AES_ARTIFACTS_", extra="ignore", populate_by_name=True)

    objects_url: SecretStr = Field(description="URL of the object store for artifacts.")
    public_url: str = Field(
        "", description="Public URL of the gateway, for links. If empty, `AES_GATEWAY_URL` is used."
    )
    link_seconds: int = Field(14_400, ge=1, le=604_800, description="How long links are valid.")
    max_upload_bytes: int = Field(52_428_800, ge=1, description="Maximum size of an artifact, in bytes.")
    max_image_pixels: int = Field(100_000_000, ge=1, description="Maximum number of pixels in an image.")
    table_processes: int = Field(
        2,
        ge=1,
        le=64,
        description="Maximum concurrent data-file reads per company and process."
        " Another is reserved for other companies.",
    )
    table_timeout_seconds: float = Field(60.0, gt=0, description="Time limit for reading one data file.")
    table_memory_bytes: int = Field(
        1_073_741_824, ge=128 * 1024**2, description="Memory limit for reading one data file, in bytes."
    )
    lease_seconds: float = Field(
        20.0, ge=1, description="How long a process can be silent before other processes take over its work."
    )
