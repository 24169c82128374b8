"""Stored agents and their versions, the rules for who can see and change them, and checks of their own fields."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from libs.contracts.errors import ErrorDetail, NotFound, PermissionDenied
from libs.contracts.identity import Identity
from libs.contracts.origins import is_origin
from libs.contracts.resources.agents import Agent, AgentConfiguration, AgentVersion, CreateAgentBody, UpdateAgentBody
from libs.contracts.timestamps import format_time
from services.registry.domain.configuration import (
    CONFIGURATION_FIELDS,
    FIRST_VERSION,
    config_hash,
    next_version,
    normalised,
)
from services.registry.domain.findings import found

_NULLABLE: Final = frozenset({"origin_url", "output_schema"})
_HTTP_URL: Final = re.compile(r"https?://[^\s/?#]+(?:[/?#]\S*)?", re.IGNORECASE)


class AgentNotFound(NotFound):
    """The agent doesn't exist, or the caller can't see it."""

    def __init__(self) -> None:
        super().__init__("There is no agent with this ID or key.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAgent:
    """An agent with its current configuration. Times have a time zone."""

    id: str
    agent_key: str
    company_id: str
    owner_id: str
    is_public: bool
    is_shared: bool
    origin_url: str | None
    allowed_origins: tuple[str, ...]
    entry_point: str
    system_config: Mapping[str, Any]
    config_hash: str
    version_number: str
    created_at: datetime
    updated_at: datetime

    @property
    def usable_in_web_pages(self) -> bool:
        """Returns whether any web page may use the agent by its key."""
        return self.is_public and bool(self.allowed_origins)

    def visible_to(self, caller: Identity) -> bool:
        """Returns whether the caller can see the agent.

        Only the owner and keys with ``company:read`` can see a private agent.
        """
        if self.company_id != caller.company_id:
            return False
        return self.is_public or self.is_shared or caller.may_read_of(self.owner_id)

    @property
    def visible_only_to(self) -> str | None:
        """Returns the owner's ID if the agent is private, or None if the whole company can see the agent."""
        return None if self.is_public or self.is_shared else self.owner_id

    def configuration(self) -> AgentConfiguration:
        return AgentConfiguration.model_validate(self.system_config)

    def changed(self, changes: UpdateAgentBody, now: datetime) -> "StoredAgent":
        """Returns a copy with the changes, or the agent itself if nothing changes.

        If the configuration changes, the copy has a new version number.
        """
        given = {name: getattr(changes, name) for name in changes.model_fields_set}
        parts = {name: value for name, value in given.items() if name in CONFIGURATION_FIELDS}
        settings = {name: value for name, value in given.items() if name not in CONFIGURATION_FIELDS}
        if "allowed_origins" in settings:
            settings["allowed_origins"] = tuple(settings["allowed_origins"])
        system_config = normalised(self.configuration().model_copy(update=parts))
        new_hash = config_hash(system_config)
        version = self.version_number if new_hash == self.config_hash else next_version(self.version_number)
        after = replace(self, **settings, system_config=system_config, config_hash=new_hash, version_number=version)
        return self if after == self else replace(after, updated_at=now)

    def public(self) -> Agent:
        return Agent(
            id=self.id,
            agent_key=self.agent_key,
            name=self.system_config["name"],
            architecture=self.system_config["agent_type"],
            entry_point=self.entry_point,
            is_public=self.is_public,
            is_shared=self.is_shared,
            origin_url=self.origin_url,
            allowed_origins=list(self.allowed_origins),
            owner=self.owner_id,
            company=self.company_id,
            system_config=dict(self.system_config),
            version_number=self.version_number,
            config_hash=self.config_hash,
            created_at=format_time(self.created_at),
            updated_at=format_time(self.updated_at),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVersion:
    """An immutable version of an agent's configuration. ``created_by`` is the ID of a user."""

    version_number: str
    config_hash: str
    system_config: Mapping[str, Any]
    created_by: str
    created_at: datetime

    def public(self) -> AgentVersion:
        return AgentVersion.model_validate(self, from_attributes=True)


def require_visible(agent: StoredAgent | None, caller: Identity) -> StoredAgent:
    """Returns the agent if the caller can see it. Raises ``AgentNotFound`` if not."""
    if agent is None or not agent.visible_to(caller):
        raise AgentNotFound()
    return agent


def require_writable(agent: StoredAgent | None, caller: Identity) -> StoredAgent:
    """Returns the agent if the caller can change it. Raises ``AgentNotFound`` or ``PermissionDenied`` if not."""
    agent = require_visible(agent, caller)
    if not caller.may_write_of(agent.owner_id):
        raise PermissionDenied("Only the agent's owner or a key with company:write can change this agent.")
    return agent


def new_agent(*, agent_id: str, agent_key: str, body: CreateAgentBody, owner: Identity, now: datetime) -> StoredAgent:
    """Returns the first version of a new agent."""
    system_config = normalised(body)
    return StoredAgent(
        id=agent_id,
        agent_key=agent_key,
        company_id=owner.company_id,
        owner_id=owner.user_id,
        is_public=body.is_public,
        is_shared=body.is_shared,
        origin_url=body.origin_url,
        allowed_origins=tuple(body.allowed_origins),
        entry_point=body.entry_point,
        system_config=system_config,
        config_hash=config_hash(system_config),
        version_number=FIRST_VERSION,
        created_at=now,
        updated_at=now,
    )


def agent_errors(body: CreateAgentBody | UpdateAgentBody) -> Iterator[ErrorDetail]:
    """Checks URLs and origins, and that updates don't set required fields to null."""
    if isinstance(body, UpdateAgentBody):
        for name in UpdateAgentBody.model_fields:
            if name in body.model_fields_set - _NULLABLE and getattr(body, name) is None:
                hint = "omit the field to keep its value, or send a new one"
                yield found((name,), "null_not_allowed", "must not be null", hint)
    if body.origin_url is not None and not _HTTP_URL.fullmatch(body.origin_url):
        hint = "for example https://example.com/chat"
        yield found(("origin_url",), "url_invalid", "must be an http or https URL", hint)
    for index, origin in enumerate(body.allowed_origins or ()):
        if not is_origin(origin):
            message = "must be an origin: a scheme, a host and optionally a port"
            hint = "use an origin such as https://example.com, without a path or a trailing slash"
            yield found(("allowed_origins", index), "origin_invalid", message, hint)
