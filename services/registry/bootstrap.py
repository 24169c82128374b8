"""Builds the registry from its parts."""

import time
from datetime import UTC, datetime
from pathlib import Path

from libs.service_defaults import Service
from services.registry.adapters.internal_api.knowledge_bases import HttpKnowledgeBases
from services.registry.adapters.internal_api.runtime_catalogues import HttpRuntimeCatalogues
from services.registry.adapters.postgres.agents import PostgresAgentReader, PostgresAgentWriter
from services.registry.entrypoints.commands import register_commands
from services.registry.entrypoints.http.agents import agents_router, configurations_router
from services.registry.settings import RegistrySettings
from services.registry.use_cases.change_agents import (
    AddAgent,
    ChangeAgent,
    CheckAgentChange,
    CheckNewAgent,
    RemoveAgent,
)
from services.registry.use_cases.configuration_checks import ConfigurationChecks
from services.registry.use_cases.normalize_configuration import NormalizeConfiguration
from services.registry.use_cases.validate_configuration import ValidateConfiguration

MIGRATIONS = Path(__file__).parent / "migrations"


def build(settings: RegistrySettings) -> Service:
    """The service, ready to run."""
    service = Service("registry", settings, migrations=MIGRATIONS)
    reader = PostgresAgentReader(service.database)
    checks = ConfigurationChecks(
        HttpRuntimeCatalogues(service.calls, time.monotonic), HttpKnowledgeBases(service.calls)
    )
    register_commands(
        service.commands,
        CheckNewAgent(checks),
        AddAgent(PostgresAgentWriter, _now),
        CheckAgentChange(reader, checks, _now),
        ChangeAgent(PostgresAgentWriter, _now),
        RemoveAgent(PostgresAgentWriter),
    )
    service.http.include_router(
        configurations_router(ValidateConfiguration(checks), NormalizeConfiguration(reader, checks))
    )
    service.http.include_router(agents_router(reader))
    return service


def _now() -> datetime:
    return datetime.now(UTC)
