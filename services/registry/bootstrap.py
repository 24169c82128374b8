"""Builds the registry from its parts."""

import time
from datetime import UTC, datetime
from pathlib import Path

from libs.eventing import Transaction
from libs.service_defaults import Service
from services.registry.adapters.agent_reader import PostgresAgentReader
from services.registry.adapters.agent_writer import PostgresAgentWriter
from services.registry.adapters.ingestion_knowledge_bases import HttpKnowledgeBases
from services.registry.adapters.runtime_catalogue import HttpRuntimeCatalogues
from services.registry.entrypoints.commands import AgentCommands
from services.registry.entrypoints.http.agents import agents_router
from services.registry.entrypoints.http.configurations import configurations_router
from services.registry.settings import RegistrySettings
from services.registry.use_cases.create_agent import AgentCreation
from services.registry.use_cases.normalize_configuration import Normalization
from services.registry.use_cases.read_agents import AgentReading
from services.registry.use_cases.update_agent import AgentChange
from services.registry.use_cases.validate_configuration import Validation

MIGRATIONS = Path(__file__).parent / "migrations"


def build(settings: RegistrySettings) -> Service:
    """The service, ready to run."""
    service = Service("registry", settings, migrations=MIGRATIONS)
    reader = PostgresAgentReader(service.database)
    validation = Validation(HttpRuntimeCatalogues(service.calls, time.monotonic), HttpKnowledgeBases(service.calls))
    AgentCommands(AgentCreation(validation, _now), AgentChange(reader, validation, _now), _writer).register(
        service.commands
    )
    service.http.include_router(configurations_router(validation, Normalization(reader, validation)))
    service.http.include_router(agents_router(AgentReading(reader)))
    return service


def _writer(transaction: Transaction) -> PostgresAgentWriter:
    return PostgresAgentWriter(transaction.connection)


def _now() -> datetime:
    return datetime.now(UTC)
