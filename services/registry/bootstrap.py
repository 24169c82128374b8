"""Builds the registry from its parts."""

import time
from pathlib import Path
from typing import Final

from libs.eventing import EntityTable
from libs.fairness import FairSemaphore
from libs.service_defaults import Service
from services.registry.adapters.internal_api.knowledge_bases import HttpKnowledgeBases
from services.registry.adapters.internal_api.runtime import HttpRuntimeCatalogues, HttpToolsetRuntime
from services.registry.adapters.postgres.agents import PostgresAgentReader
from services.registry.adapters.postgres.expiry import EXPIRIES
from services.registry.adapters.postgres.secrets import PostgresSecretReader
from services.registry.adapters.postgres.toolsets import PostgresToolsetReader
from services.registry.entrypoints.resources.agents import serve_agents
from services.registry.entrypoints.resources.secrets import serve_secrets
from services.registry.entrypoints.resources.toolsets import serve_toolsets
from services.registry.settings import RegistrySettings
from services.registry.use_cases.agents import Agents
from services.registry.use_cases.configurations import Configurations
from services.registry.use_cases.read_toolsets import ReadToolsets
from services.registry.use_cases.toolsets import Toolsets

MIGRATIONS = Path(__file__).parent / "migrations"
ENTITIES: Final = (EntityTable("agents"), EntityTable("toolsets"), EntityTable("secrets"))
"""The tables that contain the subjects of this service's events."""


def build(settings: RegistrySettings) -> Service:
    """Builds the service, ready to run."""
    service = Service("registry", settings, migrations=MIGRATIONS)
    service.expire(*EXPIRIES, entities=ENTITIES)
    serve_resources(service)
    return service


def serve_resources(service: Service) -> None:
    database = service.database
    agents, toolsets = PostgresAgentReader(database), PostgresToolsetReader(database)
    secrets = PostgresSecretReader(database)
    catalogues, runtime = HttpRuntimeCatalogues(service.calls, time.monotonic), HttpToolsetRuntime(service.calls)
    configurations = Configurations(agents, catalogues, HttpKnowledgeBases(service.calls), toolsets)
    reading = ReadToolsets(toolsets, secrets, catalogues, runtime)
    commands, http = service.commands, service.http
    serve_agents(commands, http, Agents(agents, configurations), agents, configurations)
    # Limits concurrent calls to targets, so that one company's slow targets don't block other companies.
    permits = FairSemaphore(32, waiting=16, each=4)
    serve_toolsets(commands, http, Toolsets(toolsets, secrets, runtime, permits), toolsets, reading)
    serve_secrets(commands, http, secrets)
