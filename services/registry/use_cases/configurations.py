"""Validates agent configurations, and finds the configuration for a new session."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from libs.contracts.errors import ValidationFailed
from libs.contracts.identifiers import is_id
from libs.contracts.identity import Identity
from libs.contracts.resources.agents import AgentConfiguration, ValidationReport
from libs.contracts.resources.sessions import AgentReference
from services.registry.domain.agent import StoredAgent, require_visible
from services.registry.domain.configuration import config_hash, knowledge_base_id, normalised
from services.registry.domain.configuration_checks import (
    BUILTIN_TOOLS,
    RUNTIME_PARTS,
    TOOL_PARTS,
    ToolNames,
    World,
    check,
    concerned,
)
from services.registry.domain.findings import Finding, InvalidConfiguration, found, reject
from services.registry.domain.ports import (
    AgentReader,
    KnowledgeBaseCheck,
    KnowledgeBases,
    RuntimeCatalogue,
    RuntimeCatalogues,
    ToolsetTools,
)
from services.registry.domain.schema_validation import is_configuration_like, parse, sound_parts

M = TypeVar("M", bound=BaseModel)
Parts = Collection[str] | None
_REFERENCE_FIELDS: Final = frozenset(AgentReference.model_fields)


class NotAConfiguration(ValidationFailed):
    """The body isn't an object with at least one configuration field."""


class NormalizedConfiguration(BaseModel):
    """A valid configuration in normal form. ``agent_id`` is set if the request named a stored agent."""

    agent_config: dict[str, Any]
    config_hash: str
    agent_id: str | None = None


def parse_or_reject(model: type[M], document: object) -> M:
    """Parses the document. Raises ``InvalidConfiguration``."""
    parsed, errors = parse(model, document)
    if parsed is None:
        raise InvalidConfiguration(errors)
    return parsed


@dataclass(frozen=True, slots=True)
class Configurations:
    agents: AgentReader
    catalogues: RuntimeCatalogues
    knowledge_bases: KnowledgeBases
    toolsets: ToolsetTools

    async def validate(self, document: object, caller: Identity) -> ValidationReport:
        """Returns the errors and warnings about a configuration. Raises ``NotAConfiguration``."""
        if not is_configuration_like(document):
            raise NotAConfiguration(
                "The body isn't an agent configuration. Send an object with at least name and agent_type."
            )
        configuration, errors = parse(AgentConfiguration, document)
        parts: Parts = None
        if configuration is None:
            # Schema errors shouldn't hide other errors, so the valid part is checked as well.
            rest = sound_parts(document, errors)
            if rest is None:
                return ValidationReport(valid=False, errors=errors)
            configuration, removed = rest
            parts = AgentConfiguration.model_fields.keys() - removed
            if {"tools", "client_tools"} & removed:
                # Without these fields, it's unknown whether the other fields fit.
                parts -= TOOL_PARTS
        findings = await self._findings(configuration, caller, parts)
        errors += [each.detail for each in findings if each.is_error]
        return ValidationReport(
            valid=not errors,
            errors=errors,
            warnings=[each.detail for each in findings if not each.is_error],
            config_hash=None if errors else config_hash(normalised(configuration)),
        )

    async def normalize(self, document: object, caller: Identity) -> NormalizedConfiguration:
        """Returns a configuration, or the configuration of a stored agent, in normal form.

        Raises ``NotAConfiguration``, ``InvalidConfiguration`` or ``AgentNotFound``.
        """
        if isinstance(document, Mapping) and _REFERENCE_FIELDS & document.keys():
            agent = require_visible(await self._referenced(document), caller)
            # Don't check knowledge bases and toolsets: a turn warns about a deleted one and continues without it.
            await self.require(agent.configuration(), caller, {"llm_config", BUILTIN_TOOLS})
            return NormalizedConfiguration(
                agent_config=dict(agent.system_config), config_hash=agent.config_hash, agent_id=agent.id
            )
        if not is_configuration_like(document):
            raise NotAConfiguration("Send an agent configuration, or the agent_id or agent_key of a stored agent.")
        configuration = parse_or_reject(AgentConfiguration, document)
        await self.require(configuration, caller)
        system_config = normalised(configuration)
        return NormalizedConfiguration(agent_config=system_config, config_hash=config_hash(system_config))

    async def require(self, configuration: AgentConfiguration, caller: Identity, parts: Parts = None) -> None:
        """Raises ``InvalidConfiguration`` if these parts have errors. None stands for all parts."""
        findings = await self._findings(configuration, caller, parts)
        reject(each.detail for each in findings if each.is_error)

    async def _referenced(self, document: Mapping[str, Any]) -> StoredAgent | None:
        reference = parse_or_reject(AgentReference, document)
        if (reference.agent_id is None) == (reference.agent_key is None):
            message = "Specify either agent_id or agent_key"
            raise InvalidConfiguration([found(("agent_key",), "reference_ambiguous", message, "remove one of them")])
        if reference.agent_id is not None:
            return await self.agents.get(reference.agent_id) if is_id(reference.agent_id) else None
        return await self.agents.get_by_key(reference.agent_key or "")

    async def _findings(self, configuration: AgentConfiguration, caller: Identity, parts: Parts) -> list[Finding]:
        """Checks these parts. Calls only the services that the parts need."""
        world = await asyncio.gather(
            self._catalogue(caller, parts),
            self._tool_names(configuration, caller, parts),
            self._knowledge_base_check(configuration, caller, parts),
        )
        return list(check(configuration, World(*world), parts))

    async def _catalogue(self, caller: Identity, parts: Parts) -> RuntimeCatalogue | None:
        return await self.catalogues.current(caller) if concerned(parts, RUNTIME_PARTS) else None

    async def _tool_names(self, configuration: AgentConfiguration, caller: Identity, parts: Parts) -> ToolNames:
        needed = configuration.tools or configuration.tool_policies
        return await self.toolsets.tool_names(caller.company_id) if needed and concerned(parts, TOOL_PARTS) else {}

    async def _knowledge_base_check(
        self, configuration: AgentConfiguration, caller: Identity, parts: Parts
    ) -> KnowledgeBaseCheck | None:
        if not self.knowledge_bases.available:
            return None
        ids = list(dict.fromkeys(knowledge_base_id(link) for link in configuration.knowledge_bases))
        if not ids or not concerned(parts, {"knowledge_bases"}):
            return KnowledgeBaseCheck()
        return await self.knowledge_bases.check(caller, ids)
