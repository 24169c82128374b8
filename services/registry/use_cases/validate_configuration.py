"""Reports everything that is wrong with a configuration: its schema first, then what it refers to."""

from dataclasses import dataclass

from libs.contracts.api.agents import AgentConfiguration, ValidationReport
from libs.contracts.identity import Identity
from services.registry.domain.configuration import config_hash, normalised
from services.registry.domain.schema_validation import is_configuration_like, parse
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
            return ValidationReport(valid=False, errors=errors)
        findings = await self.checks.findings(configuration, caller)
        valid = not findings.errors
        return ValidationReport(
            valid=valid,
            errors=findings.errors,
            warnings=findings.warnings,
            config_hash=config_hash(normalised(configuration)) if valid else None,
        )
