"""Connections: publishable keys for browsers, and their scopes."""

import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from libs.contracts.identity import Identity

_FORM: Final = re.compile(r"pub_[A-Za-z0-9_-]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A public key for one agent. ``quota``: requests per minute, shared by everyone who uses the key."""

    id: str
    company_id: str
    user_id: str
    name: str
    key: str
    agent_id: str
    agent_key: str
    allowed_origins: tuple[str, ...]
    scopes: frozenset[str]
    quota: int | None
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOwner:
    """A connection, and the names of its company and user."""

    connection: Connection
    company_name: str
    user_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicUse:
    """The restrictions of a public key. Sessions are opened as ``sees_as``, an identity that can see the agent."""

    agent_id: str
    agent_key: str
    origins: frozenset[str]
    sees_as: Identity

    def names_own_agent(self, wanted: dict[str, object]) -> bool:
        """Returns whether the body of a new session specifies the key's agent, or no agent at all."""
        own: tuple[dict[str, object], ...] = ({}, {"agent_id": self.agent_id}, {"agent_key": self.agent_key})
        return wanted in own


def new_connection_key() -> str:
    return "pub_" + secrets.token_urlsafe(24)


def has_connection_form(text: str) -> bool:
    """Returns whether the string looks like a connection's key."""
    return _FORM.fullmatch(text) is not None
