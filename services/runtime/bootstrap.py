"""Wires the parts of the runtime service together."""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import structlog
from fastapi import FastAPI

from libs.contracts.errors import StoreUnavailable
from libs.contracts.identifiers import new_id
from libs.eventing import CommandRouter, EntityTable, Outbox
from libs.outbound import GuardedResolver
from libs.persistence import Database, Presence
from libs.quotas import CompanyAmounts
from libs.service_defaults import Service
from libs.service_defaults.repeating import repeat, repeat_while_busy
from services.runtime.adapters.bus_deltas import BusDeltas
from services.runtime.adapters.internal_api.artifacts import HttpArtifacts
from services.runtime.adapters.internal_api.knowledge import HttpKnowledge
from services.runtime.adapters.internal_api.toolsets import HttpToolsets
from services.runtime.adapters.models.providers import model_providers, new_session
from services.runtime.adapters.observed import (
    ObservedAgent,
    ObservedConnector,
    ObservedModel,
    PrometheusMetrics,
    observed,
)
from services.runtime.adapters.postgres.admissions import PostgresAdmissions
from services.runtime.adapters.postgres.budgets import PostgresBudgetReads
from services.runtime.adapters.postgres.conversations import PostgresConversations
from services.runtime.adapters.postgres.expiry import EXPIRIES
from services.runtime.adapters.postgres.leases import PostgresLeaseReclaimer, PostgresWorkerLease
from services.runtime.adapters.postgres.retention import PostgresRetentionReads
from services.runtime.adapters.postgres.session_reads import PostgresSessionReads
from services.runtime.adapters.postgres.session_writer import SESSIONS, PostgresSessionWriter
from services.runtime.adapters.postgres.spending import PostgresPrices
from services.runtime.adapters.postgres.steps import record_steps
from services.runtime.adapters.postgres.turn_ends import PostgresTurnOutcomes
from services.runtime.adapters.postgres.watched_turns import PostgresWatchedTurns
from services.runtime.adapters.tools.builtin import builtin_tools
from services.runtime.adapters.tools.toolsets.http.connector import HttpConnector
from services.runtime.adapters.tools.toolsets.http_target import HttpTarget
from services.runtime.adapters.tools.toolsets.masking import MaskedConnector
from services.runtime.adapters.tools.toolsets.mcp.late import LateMcpConnector
from services.runtime.adapters.tools.toolsets.openapi.connector import OpenApiConnector
from services.runtime.adapters.tools.toolsets.secrets import ToolsetSecrets
from services.runtime.domain.admission import AdmissionPolicy, Backlog
from services.runtime.domain.agents import AgentLoop
from services.runtime.domain.artifacts import SessionArtifacts
from services.runtime.domain.models import ModelCatalogue
from services.runtime.domain.ports import DeltaSink
from services.runtime.entrypoints.resources.actions import serve_actions
from services.runtime.entrypoints.resources.budgets import serve_budgets
from services.runtime.entrypoints.resources.catalogues import serve_catalogues
from services.runtime.entrypoints.resources.retention import serve_retention
from services.runtime.entrypoints.resources.sessions import serve_sessions
from services.runtime.entrypoints.resources.turns import serve_turns
from services.runtime.settings import RuntimeSettings
from services.runtime.use_cases.admit_turn import AdmitTurn
from services.runtime.use_cases.agent.agent_loop import AgentRunner
from services.runtime.use_cases.agent.context_builder import ContextBuilder
from services.runtime.use_cases.agent.inherited_artifacts import InheritedArtifacts
from services.runtime.use_cases.agent.schemas import ArgumentSchemas
from services.runtime.use_cases.agent.tool_tries import ToolTries
from services.runtime.use_cases.agent.turn_tools import AgentTools
from services.runtime.use_cases.cancel_turn import CancelTurn
from services.runtime.use_cases.engine.commits import GroupCommit
from services.runtime.use_cases.engine.lease_keeper import LeaseKeeper
from services.runtime.use_cases.engine.turn_engine import TurnEngine
from services.runtime.use_cases.engine.turn_reconciler import TurnReconciler
from services.runtime.use_cases.read_turn_stream import ReadTurnStream
from services.runtime.use_cases.retention import ExpireSessions, OldSessions, SessionRetention
from services.runtime.use_cases.run_turn import ConversationCache, RunTurn
from services.runtime.use_cases.sessions import OpenWriter, Sessions
from services.runtime.use_cases.try_toolset import Connectors, TryToolset
from services.runtime.use_cases.waits import Waits

_log = structlog.get_logger("runtime")
MIGRATIONS = Path(__file__).parent / "migrations"
# Turns aren't listed, because they number their own events.
ENTITIES: Final = (
    EntityTable("sessions"),
    EntityTable("session_tombstones"),
    EntityTable("budgets"),
    EntityTable("retention", id="company_id"),
)
"""The tables that contain the subjects of the service's events."""
_RENEWALS_PER_LEASE = 3
# The reconciler is notified just before a commit, which takes milliseconds. The second pass covers a slow commit.
_RECONCILE_AFTER = (0.02, 0.25)
_EXPIRY_SECONDS = 2.0
_RETENTION_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker's turn engine with the use cases that handle commands, and background tasks."""

    id: str
    engine: TurnEngine
    reconciler: TurnReconciler
    lease: PostgresWorkerLease
    lease_keeper: LeaseKeeper
    admit: AdmitTurn
    cancel: CancelTurn
    waits: Waits
    sessions: Sessions
    retention: SessionRetention
    open_writer: OpenWriter
    prices: PostgresPrices
    amounts: CompanyAmounts

    async def stop(self, grace: float) -> None:
        """Waits up to ``grace`` seconds for running turns, hands back the rest, and releases the lease."""
        await self.engine.drain(grace)
        try:
            await self.lease_keeper.release()
        except StoreUnavailable as problem:
            _log.warning("lease.not_released", problem=str(problem))


def build_worker(
    settings: RuntimeSettings,
    database: Database,
    outbox: Outbox,
    presence: Presence,
    agent: AgentLoop,
    models: ModelCatalogue,
    deltas: DeltaSink,
    *,
    artifacts: SessionArtifacts | None = None,
    addresses: GuardedResolver | None = None,
) -> Worker:
    worker_id, deadline, lease_time = new_id(), settings.turn_deadline_seconds, settings.lease_seconds
    lease = PostgresWorkerLease(database, presence, worker_id=worker_id, lease=lease_time)
    interval, attempts = settings.watch_interval_seconds, settings.turn_attempts
    metrics, prices = PrometheusMetrics(), PostgresPrices(database)
    amounts = CompanyAmounts(database, settings.limits_of_companies(), [SESSIONS])
    open_writer = partial(PostgresSessionWriter, prices=prices, amounts=amounts)
    outcomes = PostgresTurnOutcomes(
        outbox, prices, worker_id=worker_id, turn_deadline=deadline, action_ttl=settings.action_ttl_seconds
    )
    conversations = PostgresConversations(database)
    cache = ConversationCache(conversations, capacity=settings.history_cache_characters)
    steps = GroupCommit(partial(record_steps, outbox), lambda step: step.turn.message_context.company_id)
    run_turn = RunTurn(agent, cache, conversations, steps, deltas, prices, attempts)
    engine = TurnEngine(run_turn, cache, outcomes, metrics, capacity=settings.max_running_turns)
    reclaimer = PostgresLeaseReclaimer(
        database, outbox, presence, worker_id=worker_id, lease=lease_time, turn_deadline=deadline
    )

    def reconcile_soon() -> None:
        reconciler.wake_after(*_RECONCILE_AFTER)

    waits = Waits(outbox, open_writer, reconcile_soon)
    sessions = Sessions(outbox, amounts, open_writer, cache.prime, reconcile_soon)
    reconciler = TurnReconciler(
        engine, reclaimer, sessions.finish_deletion, waits.resolve_due, metrics, interval=interval, attempts=attempts
    )
    engine.on_release = reconciler.wake
    engine.on_room = reconciler.wake_soon
    presence.on_change(reconciler.wake)
    admissions = PostgresAdmissions(outbox, amounts, worker_id=worker_id, turn_deadline=deadline)
    policy = AdmissionPolicy(Backlog(settings.max_turns_per_session, settings.max_turns_per_company), models)
    return Worker(
        id=worker_id,
        engine=engine,
        reconciler=reconciler,
        lease=lease,
        lease_keeper=LeaseKeeper(lease, interval=lease_time / _RENEWALS_PER_LEASE),
        admit=AdmitTurn(admissions, policy, engine, artifacts, addresses),
        cancel=CancelTurn(open_writer, reconcile_soon),
        waits=waits,
        sessions=sessions,
        retention=SessionRetention(PostgresRetentionReads(database), settings.session_retention_days or None),
        open_writer=open_writer,
        prices=prices,
        amounts=amounts,
    )


def build(settings: RuntimeSettings) -> Service:
    """Builds the service."""
    service = Service("runtime", settings, migrations=MIGRATIONS, plan_once=True)
    service.expire(*EXPIRIES, entities=ENTITIES)
    http = new_session()
    resolver = settings.guarded_resolver()
    models = model_providers(os.environ, http, builtin_delay=settings.builtin_model_delay_seconds, resolver=resolver)
    knowledge = HttpKnowledge(service.calls) if service.calls.installed("ingestion") else None
    lineage = PostgresConversations(service.database)
    artifacts = (
        InheritedArtifacts(HttpArtifacts(service.calls), lineage) if service.calls.installed("artifacts") else None
    )
    toolbox = observed(builtin_tools(settings.http_get_hosts.split(","), knowledge, artifacts, resolver))
    model = ObservedModel(models, models.providers())
    tries = ToolTries(
        at_once=settings.max_tool_calls,
        each_company=settings.max_tool_calls_per_company,
        each_toolset=settings.max_tool_calls_per_toolset,
    )
    secrets = ToolsetSecrets(settings.secret_cipher())
    target = HttpTarget(resolver, secrets)
    mcp, openapi = LateMcpConnector(resolver, secrets, artifacts), OpenApiConnector(target, resolver)
    plain: Connectors = {"http": HttpConnector(target), "mcp": mcp, "openapi": openapi}
    connectors: Connectors = {name: ObservedConnector(MaskedConnector(each, secrets)) for name, each in plain.items()}
    catalogue = HttpToolsets(service.calls) if service.calls.installed("registry") else None
    tools = AgentTools(toolbox, catalogue, connectors)
    agent = ObservedAgent(AgentRunner(model, tools, knowledge, context=ContextBuilder(artifacts), tries=tries))
    deltas = BusDeltas(service.producer, service.outbox, source=service.source)
    worker = build_worker(
        settings,
        service.database,
        service.outbox,
        service.presence,
        agent,
        models,
        deltas,
        artifacts=artifacts,
        addresses=resolver,
    )
    serve_resources(service.commands, service.http, worker, service.database, service.outbox, source=service.source)
    serve_catalogues(service.http, models, toolbox, TryToolset(connectors, tries, ArgumentSchemas()))
    _run_in_background(service, worker)
    service.background("runtime.deltas", deltas.run)
    # The last third of the time is reserved for handing back unfinished turns.
    service.on_stop(lambda: worker.stop(min(settings.drain_seconds, service.seconds_to_stop() * 0.65)))
    for close in (http.close, mcp.close, target.close):
        service.on_stop(close)
    return service


def serve_resources(
    commands: CommandRouter, http: FastAPI, worker: Worker, database: Database, outbox: Outbox, *, source: str
) -> None:
    reads = PostgresSessionReads(database)
    commands.lookups.append(reads.knows_command)
    streams = ReadTurnStream(PostgresWatchedTurns(database), outbox, source, worker.engine.watch)
    serve_sessions(commands, http, worker.sessions, reads)
    serve_turns(commands, http, worker.admit, worker.cancel, reads, streams)
    serve_actions(commands, http, worker.waits, reads)
    serve_budgets(commands, http, PostgresBudgetReads(database))
    serve_retention(commands, http, worker.retention)


def _run_in_background(service: Service, worker: Worker) -> None:
    service.background("runtime.lease", worker.lease_keeper.run)
    service.background("runtime.reconciler", worker.reconciler.run)
    service.on_start(worker.prices.begin)
    service.background("runtime.prices", worker.prices.run)
    service.count_amounts(worker.amounts)
    on_removed = partial(service.retention.count_removed, "sessions")
    expire_sessions = ExpireSessions(service.outbox, worker.open_writer, on_removed)
    service.background("runtime.expiry", lambda: repeat_while_busy(expire_sessions, _EXPIRY_SECONDS))
    old = OldSessions(service.outbox, worker.retention, on_removed=on_removed)
    service.background("runtime.retention", lambda: repeat(old.remove, _RETENTION_SECONDS))
