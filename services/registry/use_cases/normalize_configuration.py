"""Finds the configuration of a new session: the one given, or that of a stored agent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from libs.contracts.api.agents import AgentConfiguration
from libs.contracts.api.sessions import AgentReference
from libs.contracts.errors import ErrorDetail
from libs.contracts.identifiers import is_id
from libs.contracts.identity import Identity
from services.registry.domain.agent import StoredAgent, require_visible
from services.registry.domain.configuration import config_hash, normalised
from services.registry.domain.ports import AgentReader
from services.registry.domain.schema_validation import is_configuration_like
from services.registry.domain.semantic_validation import BUILTIN_PARTS, MODEL_PARTS
from services.registry.use_cases.configuration_checks import (
    ConfigurationChecks,
    InvalidConfiguration,
    NotAConfiguration,
    parse_or_reject,
)

_REFERENCE_FIELDS: Final = frozenset(AgentReference.model_fields)


class NormalizedConfiguration(BaseModel):
    """A valid configuration in normal form; ``agent_id`` when it is a stored agent's."""

    agent_config: dict[str, Any]
    config_hash: str
    agent_id: str | None = None


@dataclass(frozen=True, slots=True)
class NormalizeConfiguration:
    reader: AgentReader
    checks: ConfigurationChecks

    async def __call__(self, document: object, caller: Identity) -> NormalizedConfiguration:
        """Raises ``NotAConfiguration``, ``InvalidConfiguration`` or ``AgentNotFound``."""
        if isinstance(document, Mapping) and _REFERENCE_FIELDS & document.keys():
            agent = require_visible(await self._referenced(document), caller)
            # Knowledge bases and toolsets are not checked: a turn warns of a deleted one and goes on without it.
            await self.checks.require(agent.configuration(), caller, MODEL_PARTS | BUILTIN_PARTS)
            return NormalizedConfiguration(
                agent_config=dict(agent.system_config), config_hash=agent.config_hash, agent_id=agent.id
            )
        if not is_configuration_like(document):
            raise NotAConfiguration("give an agent configuration, or the agent_id or agent_key of a stored agent")
        configuration = parse_or_reject(AgentConfiguration, document)
        await self.checks.require(configuration, caller)
        system_config = normalised(configuration)
        return NormalizedConfiguration(agent_config=system_config, config_hash=config_hash(system_config))

    async def _referenced(self, document: Mapping[str, Any]) -> StoredAgent | None:
        reference = parse_or_reject(AgentReference, document)
        if (reference.agent_id is None) == (reference.agent_key is None):
            ambiguous = ErrorDetail(
                loc=["agent_key"],
                type="reference_ambiguous",
                message="Give exactly one of agent_id and agent_key",
                hint="remove one of them",
            )
            raise InvalidConfiguration([ambiguous])
        if reference.agent_id is not None:
            return await self.reader.get(reference.agent_id) if is_id(reference.agent_id) else None
        return await self.reader.get_by_key(reference.agent_key or "")
