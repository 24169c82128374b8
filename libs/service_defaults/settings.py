"""Settings that all services share. They're read once from the environment."""

from typing import Final, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import SettingsConfigDict

from libs.contracts.errors import validation_message
from libs.eventing import KafkaSettings

_SHORTEST_KEY: Final = 32
_SERVICES: Final = ("gateway", "registry", "runtime", "ingestion", "artifacts", "timeline")


class ServiceSettings(KafkaSettings):
    """The installation's settings, from ``AES_…``, and a service's own, from ``AES_<SERVICE>_…`` (``env_prefix``)."""

    model_config = SettingsConfigDict(extra="ignore", populate_by_name=True)

    topic_prefix: str = Field(
        "",
        validation_alias="AES_TOPIC_PREFIX",
        description="Prefix of topics and consumer groups, so that several installations can share a cluster.",
    )
    signing_key: SecretStr = Field(
        validation_alias="AES_SIGNING_KEY",
        min_length=_SHORTEST_KEY,
        description="Secret that signs identities: at least 32 characters, the same for all services.",
    )
    accepted_signing_keys: SecretStr = Field(
        SecretStr(""),
        validation_alias="AES_SIGNING_KEYS_ACCEPTED",
        description="Comma-separated keys that verify signatures but don't sign.",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", validation_alias="AES_LOG_LEVEL", description="Minimum level: `DEBUG`, `INFO`, `WARNING` or `ERROR`."
    )
    log_format: Literal["json", "console"] = Field(
        "json",
        validation_alias="AES_LOG_FORMAT",
        description="Log format: `json`, or the human-readable `console`, the embedded stack's default.",
    )
    auto_migrate: bool = Field(
        False,
        validation_alias="AES_AUTO_MIGRATE",
        description="Whether to migrate the service's database at startup. A lock prevents concurrent migrations.",
    )
    database_prepared_statements: bool = Field(
        True,
        validation_alias="AES_DATABASE_PREPARED_STATEMENTS",
        description="Whether to use prepared statements. Set to `false` behind a transaction pooler.",
    )
    gateway_url: str = Field("", validation_alias="AES_GATEWAY_URL", description="URL of the gateway's internal API.")
    registry_url: str = Field(
        "",
        validation_alias="AES_REGISTRY_URL",
        description="URL of the registry service. If empty, stored agents and toolsets are unavailable.",
    )
    runtime_url: str = Field("", validation_alias="AES_RUNTIME_URL", description="URL of the runtime service.")
    ingestion_url: str = Field(
        "",
        validation_alias="AES_INGESTION_URL",
        description="URL of the ingestion service. If empty, files and knowledge bases are unavailable.",
    )
    artifacts_url: str = Field(
        "",
        validation_alias="AES_ARTIFACTS_URL",
        description="URL of the artifacts service. If empty, artifacts are unavailable.",
    )
    timeline_url: str = Field(
        "",
        validation_alias="AES_TIMELINE_URL",
        description="URL of the timeline service. If empty, the timeline, usage and webhooks are unavailable.",
    )

    database_url: SecretStr = Field(description="URL of the service's own PostgreSQL database, in libpq's format.")
    database_pool_size: int = Field(10, ge=2, le=200, description="Maximum number of database connections per process.")
    host: str = Field("127.0.0.1", description="Network interface that the HTTP API listens on.")
    port: int = Field(0, ge=0, le=65535, description="Port of the HTTP API. 0 selects a free port.")
    tombstone_days: int = Field(
        35,
        ge=9,
        le=3650,
        description="Days for which deletions are remembered, at least 9 and no fewer than `AES_TIMELINE_DAYS`.",
    )
    """Longer than commands and events are retained, so that a redelivery still finds the tombstone."""
    shutdown_grace_seconds: float = Field(
        10.0, gt=0, le=600, description="Time limit for stopping after SIGTERM. Running work gets three quarters of it."
    )

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper_case(cls, level: object) -> object:
        return level.upper() if isinstance(level, str) else level

    @field_validator("accepted_signing_keys")
    @classmethod
    def _long_enough(cls, keys: SecretStr) -> SecretStr:
        if keys.get_secret_value().lstrip().startswith("["):
            raise ValueError("must be separated by commas; a list in brackets would count as a single key")
        if any(len(key) < _SHORTEST_KEY for key in _separated(keys)):
            raise ValueError(f"each key needs at least {_SHORTEST_KEY} characters")
        return keys

    def signing_keys(self) -> tuple[str, ...]:
        """Returns the signing key, then the accepted keys."""
        return (self.signing_key.get_secret_value(), *_separated(self.accepted_signing_keys))

    def addresses(self) -> dict[str, str]:
        """Returns the base URLs of the internal APIs, by service. If a service isn't installed, its URL is empty."""
        return {name: getattr(self, f"{name}_url") for name in _SERVICES}


def invalid_settings(settings_type: type[ServiceSettings]) -> dict[str, str]:
    """Returns error messages by variable. The variable is empty if the message itself names the variables."""
    try:
        settings_type()
    except ValidationError as problem:
        prefix = settings_type.model_config.get("env_prefix", "")
        invalid = {}
        for error in problem.errors(include_input=False, include_url=False):
            variable = str(error["loc"][0]) if error["loc"] else ""
            if variable and not variable.startswith("AES_"):
                variable = f"{prefix}{variable}".upper()
            invalid[variable] = validation_message(error)
        return invalid
    return {}


def _separated(keys: SecretStr) -> list[str]:
    return [key for part in keys.get_secret_value().split(",") if (key := part.strip())]
