"""Reports everything that is wrong with a configuration: its schema, and what it refers to."""

from dataclasses import dataclass

from libs.contracts.api.agents import AgentConfiguration, ValidationReport
from libs.contracts.errors import ErrorDetail
from libs.contracts.identity import Identity
from services.registry.domain.configuration import config_hash, normalised
from services.registry.domain.schema_validation import is_configuration_like, parse, sound_parts
from services.registry.domain.semantic_validation import ALL_PARTS, TOOL_PARTS
from services.registry.use_cases.configuration_checks import ConfigurationChecks, NotAConfiguration


@dataclass(frozen=True, slots=True)
class ValidateConfiguration:
    checks: ConfigurationChecks

    async def __call__(self, document: object, caller: Identity) -> ValidationReport:
        """Raises ``NotAConfiguration`` when there is nothing to report on."""
        if not is_configuration_like(document):
            raise NotAConfiguration(
                "the body is no agent configuration: give an object with at least name and agent_type"
            )
        configuration, errors = parse(AgentConfiguration, document)
        if configuration is None:
            return await self._with_findings_of_the_rest(document, errors, caller)
        findings = await self.checks.findings(configuration, caller)
        valid = not findings.errors
        return ValidationReport(
            valid=valid,
            errors=findings.errors,
            warnings=findings.warnings,
            config_hash=config_hash(normalised(configuration)) if valid else None,
        )

    async def _with_findings_of_the_rest(
        self, document: object, errors: list[ErrorDetail], caller: Identity
    ) -> ValidationReport:
        """Mistakes of one kind don't hide those of the other: what is sound is checked as well."""
        rest = sound_parts(document, errors)
        if rest is None:
            return ValidationReport(valid=False, errors=errors)
        configuration, removed = rest
        parts = ALL_PARTS - removed
        if {"tools", "client_tools"} & removed:
            # Whether the others fit to the tools cannot be told without them.
            parts -= TOOL_PARTS - {"output_schema"}
        findings = await self.checks.findings(configuration, caller, parts)
        return ValidationReport(valid=False, errors=[*errors, *findings.errors], warnings=findings.warnings)
