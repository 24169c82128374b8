"""Checks configurations against what the other services offer."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel

from libs.contracts.api.agents import AgentConfiguration
from libs.contracts.errors import ErrorDetail, ValidationFailed
from libs.contracts.identity import Identity
from services.registry.domain.configuration import knowledge_base_id
from services.registry.domain.findings import Findings
from services.registry.domain.ports import KnowledgeBaseCheck, KnowledgeBases, RuntimeCatalogue, RuntimeCatalogues
from services.registry.domain.schema_validation import parse
from services.registry.domain.semantic_validation import (
    ALL_PARTS,
    BUILTIN_PARTS,
    KNOWLEDGE_PARTS,
    MODEL_PARTS,
    TOOL_PARTS,
    check_knowledge_bases,
    check_runtime_parts,
    check_tools,
)
from services.registry.domain.tool_checks import ToolNames
from services.registry.domain.toolset_ports import ToolsetReader

M = TypeVar("M", bound=BaseModel)


class NotAConfiguration(ValidationFailed):
    """The body is no object with at least one field of a configuration."""


class InvalidConfiguration(ValidationFailed):
    def __init__(self, errors: list[ErrorDetail]) -> None:
        first = errors[0]
        place = ".".join(str(step) for step in first.loc) or "document"
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{place}: {first.message}{more}", details=errors)


def parse_or_reject(model: type[M], document: object) -> M:
    """Parses the document; raises ``InvalidConfiguration`` with everything that is wrong with its schema."""
    parsed, errors = parse(model, document)
    if parsed is None:
        raise InvalidConfiguration(errors)
    return parsed


@dataclass(frozen=True, slots=True)
class ConfigurationChecks:
    catalogues: RuntimeCatalogues
    knowledge_bases: KnowledgeBases
    toolsets: ToolsetReader

    async def require(
        self, configuration: AgentConfiguration, caller: Identity, parts: Collection[str] = ALL_PARTS
    ) -> None:
        """Raises ``InvalidConfiguration`` when one of the named parts refers to something that does not exist."""
        findings = await self.findings(configuration, caller, parts)
        if findings.errors:
            raise InvalidConfiguration(findings.errors)

    async def findings(
        self, configuration: AgentConfiguration, caller: Identity, parts: Collection[str] = ALL_PARTS
    ) -> Findings:
        """Checks the named parts, asking both services at the same time."""
        catalogue, check, toolsets = await asyncio.gather(
            self._catalogue(caller, parts),
            self._knowledge_base_check(configuration, caller, parts),
            self._tool_names(configuration, caller, parts),
        )
        findings = Findings()
        check_runtime_parts(configuration, catalogue, toolsets, parts, findings)
        check_tools(configuration, toolsets, parts, findings)
        if KNOWLEDGE_PARTS & set(parts):
            check_knowledge_bases(configuration, check, self.knowledge_bases.available, findings)
        return findings

    async def _catalogue(self, caller: Identity, parts: Collection[str]) -> RuntimeCatalogue | None:
        asked = bool({*MODEL_PARTS, *BUILTIN_PARTS, "tools"} & set(parts))
        return await self.catalogues.current(caller) if asked else None

    async def _tool_names(
        self, configuration: AgentConfiguration, caller: Identity, parts: Collection[str]
    ) -> ToolNames:
        needed = configuration.tools or configuration.tool_policies
        return await self.toolsets.tool_names(caller.company_id) if needed and TOOL_PARTS & set(parts) else {}

    async def _knowledge_base_check(
        self, configuration: AgentConfiguration, caller: Identity, parts: Collection[str]
    ) -> KnowledgeBaseCheck:
        ids = list(dict.fromkeys(knowledge_base_id(link) for link in configuration.knowledge_bases))
        if not (KNOWLEDGE_PARTS & set(parts) and ids and self.knowledge_bases.available):
            return KnowledgeBaseCheck()
        return await self.knowledge_bases.check(caller, ids)
