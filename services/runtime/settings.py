"""The runtime's own settings."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from libs.contracts.resources.retention import MOST_DAYS
from libs.outbound import OutboundSettings
from libs.quotas import QuotaSettings
from libs.secrets import SecretsSettings
from libs.service_defaults import ServiceSettings


class RuntimeSettings(OutboundSettings, SecretsSettings, QuotaSettings, ServiceSettings):
    """Times are in seconds."""

    model_config = SettingsConfigDict(env_prefix="AES_RUNTIME_", extra="ignore", populate_by_name=True)

    max_running_turns: int = Field(200, ge=1)
    max_turns_per_session: int = Field(20, ge=1)
    max_turns_per_company: int = Field(1000, ge=1)
    turn_deadline_seconds: float = Field(600.0, gt=0)
    action_ttl_seconds: float = Field(86400.0, gt=0)
    """Time that a waiting turn is given for each answer that it needs."""
    session_retention_days: int = Field(0, ge=0, le=MOST_DAYS)
    """Days after which sessions without a turn are deleted, of companies that have not set their own; 0: never."""
    turn_attempts: int = Field(3, ge=1)
    lease_seconds: float = Field(10.0, gt=0)
    watch_interval_seconds: float = Field(1.0, gt=0)
    drain_seconds: float = Field(5.0, ge=0)
    http_get_hosts: str = ""
    """Hosts that the tool ``http_get`` may read, separated by commas; none by default."""
    max_tool_calls: int = Field(200, ge=1)
    """Calls of toolsets that run at once in a process."""
    max_tool_calls_per_company: int = Field(50, ge=1)
    max_tool_calls_per_toolset: int = Field(20, ge=1)
    builtin_model_delay_seconds: float = Field(0.0, ge=0)
    """Time that ``builtin:extractive`` takes to answer, for trying out slow models."""
    history_cache_characters: int = Field(64_000_000, ge=0)
