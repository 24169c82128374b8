"""The settings of company limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import orjson
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

_GIB: Final = 1024**3
LIMITS: Final = (
    "requests_per_minute",
    "turns_per_minute",
    "streams",
    "api_keys",
    "sessions",
    "files",
    "file_bytes",
    "artifact_bytes",
)


@dataclass(frozen=True, slots=True)
class CompanyLimits:
    """The limits by name: ``usual`` applies to all companies, and ``own`` contains overrides by company ID."""

    usual: Mapping[str, int | None]
    own: Mapping[str, Mapping[str, int | None]]

    def of(self, company_id: str, name: str) -> int | None:
        """Returns the company's limit with this name, or None if the company has none."""
        own = self.own.get(company_id)
        return own[name] if own is not None and name in own else self.usual.get(name)


class QuotaSettings(BaseSettings):
    """A mixin for the settings of services that enforce company limits. A limit of 0 means unlimited."""

    company_requests_per_minute: int = Field(
        60_000,
        ge=0,
        validation_alias="AES_COMPANY_REQUESTS_PER_MINUTE",
        description="Requests per minute, across all gateways.",
    )
    company_turns_per_minute: int = Field(
        30_000,
        ge=0,
        validation_alias="AES_COMPANY_TURNS_PER_MINUTE",
        description="Turns per minute, across all gateways.",
    )
    company_streams: int = Field(
        2_000,
        ge=0,
        validation_alias="AES_COMPANY_STREAMS",
        description="Open event streams and WebSockets, across all gateways.",
    )
    company_api_keys: int = Field(
        1_000,
        ge=0,
        validation_alias="AES_COMPANY_API_KEYS",
        description="Valid API keys. The `aes` command can exceed this limit.",
    )
    company_sessions: int = Field(1_000_000, ge=0, validation_alias="AES_COMPANY_SESSIONS", description="Sessions.")
    company_files: int = Field(1_000_000, ge=0, validation_alias="AES_COMPANY_FILES", description="Files.")
    company_file_bytes: int = Field(
        1024 * _GIB, ge=0, validation_alias="AES_COMPANY_FILE_BYTES", description="Total size of files, in bytes."
    )
    company_artifact_bytes: int = Field(
        1024 * _GIB,
        ge=0,
        validation_alias="AES_COMPANY_ARTIFACT_BYTES",
        description="Total size of artifacts, in bytes.",
    )
    company_limits: str = Field(
        "",
        validation_alias="AES_COMPANY_LIMITS",
        description='Overrides by company ID: `{"<id>": {"sessions": 500, "turns_per_minute": 60}}`.',
    )

    @field_validator("company_limits")
    @classmethod
    def _limits(cls, text: str) -> str:
        _parse(text)
        return text

    def limits_of_companies(self) -> CompanyLimits:
        usual = {name: getattr(self, f"company_{name}") or None for name in LIMITS}
        return CompanyLimits(usual, _parse(self.company_limits))


def _parse(text: str) -> dict[str, dict[str, int | None]]:
    """Parses JSON such as ``{"<company id>": {"sessions": 500}}``. Raises ValueError."""
    if not text.strip():
        return {}
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise ValueError("must be valid JSON") from None
    if not isinstance(given, dict) or not all(isinstance(limits, dict) for limits in given.values()):
        raise ValueError('must have the form {"<company id>": {"sessions": 500}}')
    for limits in given.values():
        for name, limit in limits.items():
            if name not in LIMITS:
                raise ValueError(f"unknown limit {name}; use one of: {', '.join(LIMITS)}")
            if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
                raise ValueError(f"the limit {name} must be a whole number, 0 or more")
    return {company: {name: limit or None for name, limit in limits.items()} for company, limits in given.items()}
