"""Validation in two steps: the form of the document, then its meaning in this installation."""

import asyncio
from collections.abc import Collection
from typing import TypeVar

from pydantic import BaseModel

from libs.contracts.api.agents import AgentConfiguration, ValidationReport
from libs.contracts.errors import ErrorDetail, ValidationFailed
from libs.contracts.identity import Identity
from services.registry.domain.configuration import config_hash, knowledge_base_id, normalised
from services.registry.domain.meaning import (
    ALL_PARTS,
    KNOWLEDGE_PARTS,
    MODEL_PARTS,
    TOOL_PARTS,
    Findings,
    check_knowledge_bases,
    check_runtime_parts,
)
from services.registry.domain.ports import (
    KnowledgeBaseCheck,
    KnowledgeBases,
    RuntimeCatalogue,
    RuntimeCatalogues,
)
from services.registry.domain.structure import is_configuration_like, parse

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
    """The document as that model; raises ``InvalidConfiguration`` with everything wrong with its form."""
    parsed, errors = parse(model, document)
    if parsed is None:
        raise InvalidConfiguration(errors)
    return parsed


class Validation:
    """Finds out what is wrong with a configuration, asking the other services what exists."""

    def __init__(self, catalogues: RuntimeCatalogues, knowledge_bases: KnowledgeBases) -> None:
        self._catalogues = catalogues
        self._knowledge_bases = knowledge_bases

    async def report(self, document: object, caller: Identity) -> ValidationReport:
        """All findings about a document. Raises ``NotAConfiguration`` when there is nothing to report on."""
        if not is_configuration_like(document):
            raise NotAConfiguration(
                "the body is no agent configuration: give an object with at least name and agent_type"
            )
        configuration, errors = parse(AgentConfiguration, document)
        if configuration is None:
            return ValidationReport(valid=False, errors=errors)
        findings = await self.findings(configuration, caller)
        valid = not findings.errors
        return ValidationReport(
            valid=valid,
            errors=findings.errors,
            warnings=findings.warnings,
            config_hash=config_hash(normalised(configuration)) if valid else None,
        )

    async def require(
        self, configuration: AgentConfiguration, caller: Identity, parts: Collection[str] = ALL_PARTS
    ) -> None:
        """Raises ``InvalidConfiguration`` unless the named parts of the configuration mean something here."""
        findings = await self.findings(configuration, caller, parts)
        if findings.errors:
            raise InvalidConfiguration(findings.errors)

    async def findings(
        self, configuration: AgentConfiguration, caller: Identity, parts: Collection[str] = ALL_PARTS
    ) -> Findings:
        """What is wrong with the named parts. Both services are asked at once, under one deadline."""
        catalogue, check = await asyncio.gather(
            self._catalogue(caller, parts), self._knowledge_base_check(configuration, caller, parts)
        )
        findings = Findings()
        check_runtime_parts(configuration, catalogue, parts, findings)
        if KNOWLEDGE_PARTS & set(parts):
            check_knowledge_bases(configuration, check, self._knowledge_bases.available, findings)
        return findings

    async def _catalogue(self, caller: Identity, parts: Collection[str]) -> RuntimeCatalogue | None:
        asked = bool((MODEL_PARTS | TOOL_PARTS) & set(parts))
        return await self._catalogues.current(caller) if asked else None

    async def _knowledge_base_check(
        self, configuration: AgentConfiguration, caller: Identity, parts: Collection[str]
    ) -> KnowledgeBaseCheck:
        ids = list(dict.fromkeys(knowledge_base_id(link) for link in configuration.knowledge_bases))
        if not (KNOWLEDGE_PARTS & set(parts) and ids and self._knowledge_bases.available):
            return KnowledgeBaseCheck()
        return await self._knowledge_bases.check(caller, ids)
