"""The authenticated caller, included in commands and internal calls."""

from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict


class Scope(StrEnum):
    """A permission that a credential can have."""

    AGENTS_READ = "agents:read"
    AGENTS_WRITE = "agents:write"
    SESSIONS_READ = "sessions:read"
    SESSIONS_WRITE = "sessions:write"
    KNOWLEDGE_READ = "knowledge:read"
    KNOWLEDGE_WRITE = "knowledge:write"
    FILES_READ = "files:read"
    FILES_WRITE = "files:write"
    ARTIFACTS_READ = "artifacts:read"
    ARTIFACTS_WRITE = "artifacts:write"
    EVENTS_READ = "events:read"
    EVENTS_WRITE = "events:write"
    KEYS_READ = "keys:read"
    KEYS_WRITE = "keys:write"
    RUNTIME_EXECUTE = "runtime:execute"
    RUNTIME_APPROVE = "runtime:approve"
    TOOLSETS_READ = "toolsets:read"
    TOOLSETS_WRITE = "toolsets:write"
    SECRETS_WRITE = "secrets:write"
    WEBHOOKS_READ = "webhooks:read"
    WEBHOOKS_WRITE = "webhooks:write"
    USAGE_READ = "usage:read"
    BUDGETS_WRITE = "budgets:write"
    COMPANY_READ = "company:read"
    COMPANY_WRITE = "company:write"
    INSTALLATION_READ = "installation:read"
    INSTALLATION_WRITE = "installation:write"


INSTALLATION_SCOPES: Final = frozenset({Scope.INSTALLATION_READ, Scope.INSTALLATION_WRITE})
"""The scopes of operators, who can see all companies. A key gets these only if they're requested explicitly."""

PUBLIC_SCOPES: Final = frozenset(
    scope.value
    for scope in (
        Scope.SESSIONS_READ,
        Scope.SESSIONS_WRITE,
        Scope.RUNTIME_EXECUTE,
        Scope.ARTIFACTS_READ,
        Scope.ARTIFACTS_WRITE,
        Scope.EVENTS_READ,
    )
)
"""The scopes that a connection's public key can have."""


class Identity(BaseModel):
    """An authenticated caller. Scopes are strings, since a newer service may send unknown scopes."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    company_id: str
    company_name: str = ""
    user_id: str
    user_name: str = ""
    key_id: str
    scopes: frozenset[str]

    def allows(self, scope: Scope) -> bool:
        return scope in self.scopes

    @property
    def reads_company(self) -> bool:
        """Returns whether the caller can see private resources of all the company's users."""
        return Scope.COMPANY_READ in self.scopes or Scope.COMPANY_WRITE in self.scopes

    def may_read_of(self, owner_id: str) -> bool:
        """Returns whether the caller can see this user's private resources."""
        return owner_id == self.user_id or self.reads_company

    def may_write_of(self, owner_id: str) -> bool:
        """Returns whether the caller can change this user's private resources."""
        return owner_id == self.user_id or Scope.COMPANY_WRITE in self.scopes
