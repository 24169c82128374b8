"""The settings of the ingestion service, read from the environment."""

from typing import Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from libs.contracts.resources.knowledge_bases import Engine
from libs.quotas import QuotaSettings
from libs.service_defaults import ServiceSettings


class IngestionSettings(QuotaSettings, ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="AES_INGESTION_", extra="ignore", populate_by_name=True)

    objects_url: SecretStr = Field(description="URL of the object store for files.")
    max_upload_bytes: int = Field(52_428_800, ge=1, description="Maximum size of a file, in bytes.")
    max_files_per_upload: int = Field(100, ge=1, le=1000, description="Maximum number of files per upload.")

    processing_engine: Engine = Field(
        "pgvector", description="Default search engine for knowledge bases: `pgvector` or `weaviate`."
    )
    weaviate_url: str = Field("", description="URL of Weaviate's REST API. If empty, Weaviate is unavailable.")
    weaviate_grpc_port: int = Field(
        50051, ge=1, le=65535, description="Port of Weaviate's gRPC API, which is on the same host as the REST API."
    )
    weaviate_api_key: SecretStr = Field(SecretStr(""), description="Weaviate's API key, if it requires one.")
    index_grace_seconds: float = Field(
        60.0, ge=0, description="How long a replaced index is kept for running searches."
    )

    embedding_batch_size: int = Field(
        128,
        ge=1,
        le=2048,
        description="Maximum texts per embedding request. The number is halved if the server rejects a request.",
    )

    streams_port: int = Field(
        0, ge=0, le=65535, description="Port for health and metrics of the `streams` process. 0 selects a free port."
    )
    streams_batches: int = Field(
        2,
        ge=1,
        le=16,
        description="Maximum batches of 32 files per company and worker. Another is reserved for other companies.",
    )
    parse_ahead: bool = Field(True, description="Whether idle workers parse files before a knowledge base uses them.")
    parsing_processes: int = Field(
        2,
        ge=1,
        le=64,
        description="Maximum parsing processes per company and worker. Another is reserved for other companies.",
    )
    parsing_timeout_seconds: float = Field(
        60.0,
        gt=0,
        description="Time limit for parsing a part of a file. Must be below `AES_INGESTION_WATCHDOG_SECONDS`.",
    )
    parsing_file_seconds: float = Field(3600.0, gt=0, description="Time limit for parsing a whole file.")
    parsing_memory_bytes: int = Field(
        1_073_741_824, ge=128 * 1024**2, description="Memory limit for parsing a file, in bytes."
    )
    lease_seconds: float = Field(
        20.0, ge=1, description="How long a worker can be silent before other workers take over its work."
    )
    reconcile_seconds: float = Field(
        30.0, ge=1, description="How often to resend unclaimed work and check the engines' indexes."
    )
    watchdog_seconds: float = Field(
        120.0, ge=10, description="How long a worker with work can go without progress before it exits."
    )

    @model_validator(mode="after")
    def _check_watchdog(self) -> Self:
        # There may be no progress until a parsing process has finished its part. This must not trigger the watchdog.
        if self.watchdog_seconds <= self.parsing_timeout_seconds:
            raise ValueError(
                "AES_INGESTION_WATCHDOG_SECONDS must be greater than AES_INGESTION_PARSING_TIMEOUT_SECONDS"
            )
        return self
