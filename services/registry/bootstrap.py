"""Builds the registry from its parts."""

import time
from datetime import UTC, datetime
from pathlib import Path

from libs.fairness import FairSemaphore
from libs.service_defaults import Service
from services.registry.adapters.internal_api.knowledge_bases import HttpKnowledgeBases
from services.registry.adapters.internal_api.runtime_catalogues import HttpRuntimeCatalogues
from services.registry.adapters.internal_api.toolset_runtime import HttpToolsetRuntime
from services.registry.adapters.postgres.agents import PostgresAgentReader, PostgresAgentWriter
from services.registry.adapters.postgres.expiry import ENTITIES, EXPIRIES
from services.registry.adapters.postgres.secrets import PostgresSecretReader, PostgresSecretWriter
from services.registry.adapters.postgres.toolsets import PostgresToolsetReader, PostgresToolsetWriter
from services.registry.entrypoints.commands import ToolsetCommands, register_commands
from services.registry.entrypoints.http.agents import agents_router, configurations_router
from services.registry.entrypoints.http.toolsets import runtime_router, toolsets_router
from services.registry.settings import RegistrySettings
from services.registry.use_cases.change_agents import (
    AddAgent,
    ChangeAgent,
    CheckAgentChange,
    CheckNewAgent,
    RemoveAgent,
)
from services.registry.use_cases.change_secrets import RemoveSecret, StoreSecret
from services.registry.use_cases.change_toolsets import (
    AddToolset,
    ChangeToolset,
    CheckNewToolset,
    CheckToolsetChange,
    CheckToolsetRefresh,
    FindTools,
    RemoveToolset,
)
from services.registry.use_cases.configuration_checks import ConfigurationChecks
from services.registry.use_cases.normalize_configuration import NormalizeConfiguration
from services.registry.use_cases.read_toolsets import ConnectToolsets, ListTools, TryTool
from services.registry.use_cases.validate_configuration import ValidateConfiguration

MIGRATIONS = Path(__file__).parent / "migrations"


def build(settings: RegistrySettings) -> Service:
    """The service, ready to run."""
    service = Service("registry", settings, migrations=MIGRATIONS)
    service.expire(*EXPIRIES, entities=ENTITIES)
    reader, toolsets = PostgresAgentReader(service.database), PostgresToolsetReader(service.database)
    catalogues = HttpRuntimeCatalogues(service.calls, time.monotonic)
    checks = ConfigurationChecks(catalogues, HttpKnowledgeBases(service.calls), toolsets)
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
    _add_toolsets(service, toolsets, catalogues)
    return service


def _add_toolsets(service: Service, toolsets: PostgresToolsetReader, catalogues: HttpRuntimeCatalogues) -> None:
    secrets, runtime = PostgresSecretReader(service.database), HttpToolsetRuntime(service.calls)
    find_tools, connect = FindTools(secrets, runtime, _asking_targets()), ConnectToolsets(toolsets, secrets)
    ToolsetCommands(
        check_new=CheckNewToolset(toolsets, find_tools),
        add=AddToolset(PostgresToolsetWriter, _now),
        check_change=CheckToolsetChange(toolsets, find_tools),
        check_refresh=CheckToolsetRefresh(toolsets, find_tools),
        change=ChangeToolset(PostgresToolsetWriter, _now),
        remove=RemoveToolset(PostgresToolsetWriter, _now),
        store_secret=StoreSecret(PostgresSecretWriter, _now),
        remove_secret=RemoveSecret(PostgresSecretWriter, _now),
    ).register(service.commands)
    service.http.include_router(runtime_router(connect))
    service.http.include_router(
        toolsets_router(toolsets, secrets, TryTool(connect, runtime), ListTools(catalogues, toolsets))
    )


def _asking_targets() -> FairSemaphore:
    """Slow targets of one company must not take up all of a process's commands."""
    return FairSemaphore(32, waiting=16, each=4)


def _now() -> datetime:
    return datetime.now(UTC)
