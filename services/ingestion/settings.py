"""Settings from the environment."""

from typing import Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from libs.contracts.resources.knowledge_bases import Engine
from libs.quotas import QuotaSettings
from libs.service_defaults import ServiceSettings


class IngestionSettings(QuotaSettings, ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="AES_INGESTION_", extra="ignore", populate_by_name=True)

    objects_url: SecretStr = Field(description="Where files are stored.")
    max_upload_bytes: int = Field(52_428_800, ge=1, description="Largest accepted file.")
    max_files_per_upload: int = Field(100, ge=1, le=1000, description="Maximum files per upload.")

    processing_engine: Engine = Field(
        "pgvector", description="Default search engine for knowledge bases: `pgvector` or `weaviate`."
    )
    weaviate_url: str = Field("", description="Address of Weaviate's REST API. If empty, Weaviate is unavailable.")
    weaviate_grpc_port: int = Field(
        50051, ge=1, le=65535, description="Port of Weaviate's gRPC API, which is on the same host as the REST API."
    )
    weaviate_api_key: SecretStr = Field(SecretStr(""), description="Weaviate's API key, if it requires one.")
    index_grace_seconds: float = Field(
        60.0, ge=0, description="How long a replaced index is kept for running searches."
    )

    embedding_batch_size: int = Field(
        128, ge=1, le=2048, description="Maximum texts per embedding request. Halved if the server rejects a request."
    )

    streams_port: int = Field(
        0, ge=0, le=65535, description="Health and metrics port of `streams`. 0 selects any free port."
    )
    streams_batches: int = Field(
        2,
        ge=1,
        le=16,
        description=(
            "Maximum batches of up to 32 files that one company can run at once per worker. Each worker has one more,"
            " for other companies."
        ),
    )
    parse_ahead: bool = Field(True, description="Lets idle workers parse files before a knowledge base uses them.")
    parsing_processes: int = Field(
        2,
        ge=1,
        le=64,
        description=(
            "Maximum parsing processes that one company can use per worker. Each worker has one more, for other"
            " companies."
        ),
    )
    parsing_timeout_seconds: float = Field(
        60.0, gt=0, description="Time limit for a part of a file. Must be below `AES_INGESTION_WATCHDOG_SECONDS`."
    )
    parsing_file_seconds: float = Field(3600.0, gt=0, description="Time limit for a whole file.")
    parsing_memory_bytes: int = Field(1_073_741_824, ge=128 * 1024**2, description="Memory limit for reading one file.")
    lease_seconds: float = Field(
        20.0, ge=1, description="How long a worker may be silent before others take over its work."
    )
    reconcile_seconds: float = Field(
        30.0, ge=1, description="How often to resend unclaimed work and check the engines' indexes."
    )
    watchdog_seconds: float = Field(
        120.0, ge=10, description="A worker exits if it has work but makes no progress for this long."
    )

    @model_validator(mode="after")
    def _check_watchdog(self) -> Self:
        # While all parsing processes work on long parts, there is no other progress. This must not trigger the
        # watchdog.
        if self.watchdog_seconds <= self.parsing_timeout_seconds:
            raise ValueError("AES_INGESTION_WATCHDOG_SECONDS must be longer than AES_INGESTION_PARSING_TIMEOUT_SECONDS")
        return self
