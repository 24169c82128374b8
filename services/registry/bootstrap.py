"""Builds the registry from its parts."""

import time
from pathlib import Path

from libs.fairness import FairSemaphore
from libs.service_defaults import Service
from services.registry.adapters.internal_api.knowledge_bases import HttpKnowledgeBases
from services.registry.adapters.internal_api.runtime import HttpRuntimeCatalogues, HttpToolsetRuntime
from services.registry.adapters.postgres.agents import PostgresAgentReader
from services.registry.adapters.postgres.expiry import ENTITIES, EXPIRIES
from services.registry.adapters.postgres.secrets import PostgresSecretReader
from services.registry.adapters.postgres.toolsets import PostgresToolsetReader
from services.registry.entrypoints.commands import register_commands
from services.registry.entrypoints.http.agents import agents_router, configurations_router
from services.registry.entrypoints.http.toolsets import runtime_router, toolsets_router
from services.registry.settings import RegistrySettings
from services.registry.use_cases.change_agents import ChangeAgents
from services.registry.use_cases.change_toolsets import ChangeToolsets
from services.registry.use_cases.configurations import Configurations
from services.registry.use_cases.read_toolsets import ReadToolsets

MIGRATIONS = Path(__file__).parent / "migrations"


def build(settings: RegistrySettings) -> Service:
    """The service, ready to run."""
    service = Service("registry", settings, migrations=MIGRATIONS)
    service.expire(*EXPIRIES, entities=ENTITIES)
    database = service.database
    agents, toolsets = PostgresAgentReader(database), PostgresToolsetReader(database)
    secrets = PostgresSecretReader(database)
    catalogues, runtime = HttpRuntimeCatalogues(service.calls, time.monotonic), HttpToolsetRuntime(service.calls)
    configurations = Configurations(agents, catalogues, HttpKnowledgeBases(service.calls), toolsets)
    register_commands(
        service.commands,
        ChangeAgents(agents, configurations),
        ChangeToolsets(toolsets, secrets, runtime, _asking_targets()),
    )
    reading = ReadToolsets(toolsets, secrets, catalogues, runtime)
    for router in (
        configurations_router(configurations),
        agents_router(agents),
        runtime_router(reading),
        toolsets_router(toolsets, secrets, reading),
    ):
        service.http.include_router(router)
    return service


def _asking_targets() -> FairSemaphore:
    """Slow targets of one company must not take up all of a process's commands."""
    return FairSemaphore(32, waiting=16, each=4)
