"""The configuration that a new session is created with: given in full, or by a stored agent."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from libs.contracts.api.agents import AgentConfiguration
from libs.contracts.api.sessions import AgentReference
from libs.contracts.errors import ErrorDetail
from libs.contracts.identifiers import is_id
from libs.contracts.identity import Identity
from services.registry.domain.agent import AgentNotFound, StoredAgent
from services.registry.domain.configuration import config_hash, normalised
from services.registry.domain.meaning import MODEL_PARTS, TOOL_PARTS
from services.registry.domain.ports import AgentReader
from services.registry.domain.structure import is_configuration_like
from services.registry.use_cases.validate_configuration import (
    InvalidConfiguration,
    NotAConfiguration,
    Validation,
    parse_or_reject,
)

_REFERENCE_FIELDS: Final = frozenset(AgentReference.model_fields)


class NormalizedConfiguration(BaseModel):
    """A valid configuration in normal form; ``agent_id`` when it is a stored agent's."""

    agent_config: dict[str, Any]
    config_hash: str
    agent_id: str | None = None


class Normalization:
    def __init__(self, reader: AgentReader, validation: Validation) -> None:
        self._reader = reader
        self._validation = validation

    async def normalize(self, document: object, caller: Identity) -> NormalizedConfiguration:
        """Raises ``NotAConfiguration``, ``InvalidConfiguration`` or ``AgentNotFound``."""
        if isinstance(document, Mapping) and _REFERENCE_FIELDS & document.keys():
            return await self._of_stored(await self._referenced(document, caller), caller)
        if not is_configuration_like(document):
            raise NotAConfiguration("give an agent configuration, or the agent_id or agent_key of a stored agent")
        configuration = parse_or_reject(AgentConfiguration, document)
        await self._validation.require(configuration, caller)
        system_config = normalised(configuration)
        return NormalizedConfiguration(agent_config=system_config, config_hash=config_hash(system_config))

    async def _of_stored(self, agent: StoredAgent, caller: Identity) -> NormalizedConfiguration:
        # A knowledge base deleted since is left to the turn, which warns and goes on without it.
        await self._validation.require(agent.configuration(), caller, MODEL_PARTS | TOOL_PARTS)
        return NormalizedConfiguration(
            agent_config=dict(agent.system_config), config_hash=agent.config_hash, agent_id=agent.id
        )

    async def _referenced(self, document: Mapping[str, Any], caller: Identity) -> StoredAgent:
        reference = parse_or_reject(AgentReference, document)
        if (reference.agent_id is None) == (reference.agent_key is None):
            raise InvalidConfiguration(
                [
                    ErrorDetail(
                        loc=["agent_key"],
                        type="reference_ambiguous",
                        message="Give exactly one of agent_id and agent_key",
                        hint="remove one of them",
                    )
                ]
            )
        if reference.agent_id is not None:
            agent = await self._reader.get(reference.agent_id) if is_id(reference.agent_id) else None
        else:
            agent = await self._reader.get_by_key(reference.agent_key or "")
        if agent is None:
            raise AgentNotFound()
        agent.require_visible(caller)
        return agent
