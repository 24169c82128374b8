"""The runtime's own settings."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from libs.contracts.resources.retention import MOST_DAYS
from libs.outbound import OutboundSettings
from libs.quotas import QuotaSettings
from libs.secrets import SecretsSettings
from libs.service_defaults import ServiceSettings


class RuntimeSettings(OutboundSettings, SecretsSettings, QuotaSettings, ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="AES_RUNTIME_", extra="ignore", populate_by_name=True)

    max_running_turns: int = Field(
        200,
        ge=1,
        description="Maximum running turns per company and worker. Another eighth is reserved for other companies.",
    )
    max_turns_per_session: int = Field(
        20, ge=1, description="Maximum number of unfinished turns per session. Further turns get a 429."
    )
    max_turns_per_company: int = Field(
        1000, ge=1, description="Maximum number of queued and running turns per company. Further turns get a 429."
    )
    turn_deadline_seconds: float = Field(600.0, gt=0, description="Time limit for a turn. Longer turns fail.")
    action_ttl_seconds: float = Field(
        86400.0,
        gt=0,
        description="Time limit for resolving an action. Afterwards, the tool call fails and the turn resumes.",
    )
    session_retention_days: int = Field(
        0,
        ge=0,
        le=MOST_DAYS,
        description="Days until unused sessions are deleted, unless the company sets another number. 0 means never.",
    )
    turn_attempts: int = Field(
        3,
        ge=1,
        description="Maximum number of attempts for a turn whose worker dies or raises an unexpected exception.",
    )
    lease_seconds: float = Field(
        10.0, gt=0, description="How long a worker can be silent before other workers take over its turns."
    )
    watch_interval_seconds: float = Field(1.0, gt=0, description="How often a worker looks for unclaimed turns.")
    drain_seconds: float = Field(
        5.0, ge=0, description="How long turns can keep running at shutdown before they're released to other workers."
    )
    http_get_hosts: str = Field(
        "", description="Comma-separated hosts that the tool `http_get` can read from. If empty, the tool is disabled."
    )
    max_tool_calls: int = Field(
        200,
        ge=1,
        description=("Maximum concurrent toolset calls per process. Further calls wait, up to their time limit."),
    )
    max_tool_calls_per_company: int = Field(
        50, ge=1, description="Maximum number of concurrent toolset calls per company and process."
    )
    max_tool_calls_per_toolset: int = Field(
        20, ge=1, description="Maximum number of concurrent calls per toolset and process."
    )
    builtin_model_delay_seconds: float = Field(
        0.0, ge=0, description="Artificial delay of `builtin:extractive`, for tests."
    )
    history_cache_characters: int = Field(
        64_000_000,
        ge=0,
        description="Maximum session history cached per worker, in characters. 0 disables the cache.",
    )
