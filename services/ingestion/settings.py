"""Settings from the environment."""

from typing import Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from libs.contracts.resources.knowledge_bases import Engine
from libs.quotas import QuotaSettings
from libs.service_defaults import ServiceSettings


class IngestionSettings(QuotaSettings, ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="AES_INGESTION_", extra="ignore", populate_by_name=True)

    objects_url: SecretStr
    max_upload_bytes: int = Field(52_428_800, ge=1)
    max_files_per_upload: int = Field(100, ge=1, le=1000)

    processing_engine: Engine = "pgvector"
    weaviate_url: str = ""
    """URL of the REST API, e.g. ``http://weaviate:8080``; empty without Weaviate."""
    weaviate_grpc_port: int = Field(50051, ge=1, le=65535)
    weaviate_api_key: SecretStr = SecretStr("")
    index_grace_seconds: float = Field(60.0, ge=0)

    embedding_batch_size: int = Field(128, ge=1, le=2048)
    """Most texts in a request to an embedding server."""

    streams_port: int = Field(0, ge=0, le=65535)
    streams_batches: int = Field(2, ge=1, le=16)
    parse_ahead: bool = True
    parsing_processes: int = Field(2, ge=1, le=64)
    parsing_timeout_seconds: float = Field(60.0, gt=0)
    """Wall time for a part of a file."""
    parsing_file_seconds: float = Field(3600.0, gt=0)
    parsing_memory_bytes: int = Field(1_073_741_824, ge=128 * 1024**2)
    lease_seconds: float = Field(20.0, ge=1)
    reconcile_seconds: float = Field(30.0, ge=1)
    watchdog_seconds: float = Field(120.0, ge=10)

    @model_validator(mode="after")
    def _check_watchdog(self) -> Self:
        # While all parsing processes are at long parts, nothing else moves; the watchdog must not end them for that.
        if self.watchdog_seconds <= self.parsing_timeout_seconds:
            raise ValueError("AES_INGESTION_WATCHDOG_SECONDS must be longer than AES_INGESTION_PARSING_TIMEOUT_SECONDS")
        return self
