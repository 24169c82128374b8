"""Agents in the registry: its commands, and its store."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from secrets import token_hex

import psycopg
import pytest

from libs.contracts.errors import Conflict
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Scope
from libs.contracts.messages import CommandRejected
from libs.contracts.resources.agents import (
    AgentCreated,
    AgentDeleted,
    AgentUpdated,
    CreateAgent,
    DeleteAgent,
    UpdateAgent,
    UpdateAgentBody,
)
from libs.eventing import Outbox
from libs.eventing.messages import OutboxMessage
from libs.persistence import Database
from services.registry.adapters.postgres.agents import PostgresAgentReader, PostgresAgentWriter
from services.registry.bootstrap import MIGRATIONS
from services.registry.domain.ports import AgentReader
from tests.integration.registry.conftest import Registry
from tests.support.command_records import unchecked
from tests.support.infrastructure import Infrastructure
from tests.support.registry import MemoryAgents, configuration, identity, stored_agent

COLLEAGUE = identity("user-2")
STRANGER = identity("user-3", company="company-2", scopes=[Scope.COMPANY_READ, Scope.COMPANY_WRITE])


def refusal(outcome: OutboxMessage) -> tuple[str, list[list[str | int]]]:
    assert ".rejected." in outcome.type
    error = CommandRejected.decode(outcome.payload).error
    return error.type, [detail.loc for detail in error.details or []]


async def create(registry: Registry, agent_id: str | None = None, **changes: object) -> str:
    agent_id = agent_id or new_id()
    outcome = await registry.dispatch(CreateAgent(agent_id=agent_id, agent=configuration(**changes)))
    assert outcome.type == AgentCreated.TYPE
    return agent_id


async def test_created_is_told_and_can_be_read(registry: Registry) -> None:
    agent_id = new_id()

    outcome = await registry.dispatch(
        CreateAgent(
            agent_id=agent_id,
            agent=configuration(name="Größe 🤖", entry_point="hello", allowed_origins=["https://example.com"]),
        )
    )

    agent = json.loads(outcome.payload)["agent"]
    assert outcome.subject == agent_id
    assert re.fullmatch("grosse-robot-[a-z0-9]{6}", agent["agent_key"])
    assert (agent["version_number"], agent["architecture"]) == ("1.0.0", "llm_agent")
    assert (agent["owner"], agent["company"]) == ("user-1", "company-1")
    assert (await registry.get(f"/internal/agents/{agent_id}")).json() == agent
    assert (await registry.get(f"/internal/agents/by-key/{agent['agent_key']}")).json() == agent
    assert (await registry.get("/internal/agents")).json() == [agent]


async def test_an_id_that_is_taken_is_a_conflict(registry: Registry) -> None:
    agent_id = await create(registry)

    outcome = await registry.dispatch(CreateAgent(agent_id=agent_id, agent=configuration(name="Other")))

    assert refusal(outcome) == ("conflict_error", [])


async def test_what_is_not_valid_is_refused_with_details(registry: Registry) -> None:
    agent = configuration(
        llm_config={"temperature": 9}, knowledge_bases=[{"id": "x", "top_k": 0}], knowledge_base=["x"]
    )
    outcome = await registry.dispatch(unchecked(CreateAgent, agent_id=new_id(), agent=agent))

    places: list[list[str | int]] = [["llm_config", "temperature"], ["knowledge_bases", 0, "top_k"], ["knowledge_base"]]
    assert refusal(outcome) == ("validation_error", places)
    assert (await registry.get("/internal/agents")).json() == []


@pytest.mark.parametrize(
    ("changes", "loc"),
    [
        ({"name": None, "output_schema": None}, ["name"]),
        ({"origin_url": "javascript:alert(1)"}, ["origin_url"]),
        ({"allowed_origins": ["https://example.com", "*"]}, ["allowed_origins", 1]),
    ],
)
async def test_a_change_that_only_the_registry_can_refuse(
    registry: Registry, changes: dict[str, object], loc: list[str | int]
) -> None:
    agent_id = await create(registry)

    outcome = await registry.dispatch(UpdateAgent(agent_id=agent_id, changes=changes))

    assert refusal(outcome) == ("validation_error", [loc])


async def test_equal_names_at_once_get_different_keys(registry: Registry) -> None:
    commands = [CreateAgent(agent_id=new_id(), agent=configuration(name="Twin")) for _ in range(12)]
    callers = [identity(f"user-{number}", f"company-{number % 3}") for number in range(12)]

    outcomes = await asyncio.gather(*map(registry.dispatch, commands, callers))

    assert {outcome.type for outcome in outcomes} == {AgentCreated.TYPE}
    keys = [json.loads(outcome.payload)["agent"]["agent_key"] for outcome in outcomes]
    assert len(set(keys)) == 12
    assert all(re.fullmatch("twin-[a-z0-9]{6}", key) for key in keys), "a bare key tells that nobody else has the name"


async def test_changes_at_once_are_all_kept(registry: Registry) -> None:
    agent_id = await create(registry)
    changes = [
        {"system_prompt": "Be long."},
        {"name": "Renamed"},
        {"agent_type": "react_agent"},
        {"llm_config": {"temperature": 0.5}},
        {"tools": ["calculator"]},
        {"is_shared": True},
        {"entry_point": "hello"},
        {"origin_url": "https://example.com"},
    ]

    outcomes = await asyncio.gather(
        *(registry.dispatch(UpdateAgent(agent_id=agent_id, changes=change)) for change in changes)
    )

    assert {outcome.type for outcome in outcomes} == {AgentUpdated.TYPE}
    agent = (await registry.get(f"/internal/agents/{agent_id}")).json()
    assert agent["system_config"] == {
        "name": "Renamed",
        "agent_type": "react_agent",
        "system_prompt": "Be long.",
        "llm_config": {"model": "builtin:extractive", "temperature": 0.5},
        "tools": ["calculator"],
        "knowledge_bases": [],
    }
    assert (agent["is_shared"], agent["entry_point"], agent["origin_url"]) == (
        True, "hello", "https://example.com",
    )  # fmt: skip
    assert agent["version_number"] == "1.0.5"
    versions = (await registry.get(f"/internal/agents/{agent_id}/versions")).json()
    assert [version["version_number"] for version in versions["versions"]] == [
        f"1.0.{number}" for number in (5, 4, 3, 2, 1, 0)
    ]
    assert sorted(outcome.sequence for outcome in outcomes) == list(range(2, 10))


async def test_the_database_refuses_to_change_a_version(registry: Registry) -> None:
    await create(registry)

    async with registry.service.database.connection() as connection:
        with pytest.raises(psycopg.errors.RestrictViolation):
            await connection.execute("UPDATE agent_versions SET config_hash = 'other'")


async def test_only_who_may_write_changes_and_deletes(registry: Registry) -> None:
    private, shared = await create(registry), await create(registry, is_shared=True)
    writer = identity("user-2", scopes=[Scope.COMPANY_WRITE])

    for caller, agent_id, expected in [
        (COLLEAGUE, private, "not_found_error"),
        (COLLEAGUE, shared, "permission_error"),
        (STRANGER, shared, "not_found_error"),
        (identity(), new_id(), "not_found_error"),
        (identity(), "no id", "not_found_error"),
    ]:
        update = await registry.dispatch(UpdateAgent(agent_id=agent_id, changes={"name": "x"}), caller)
        delete = await registry.dispatch(DeleteAgent(agent_id=agent_id), caller)
        assert (refusal(update)[0], refusal(delete)[0]) == (expected, expected)
    update = await registry.dispatch(UpdateAgent(agent_id=private, changes={"name": "x"}), writer)
    assert update.type == AgentUpdated.TYPE


async def test_a_deleted_agent_is_gone_and_its_key_stays_taken(registry: Registry) -> None:
    agent_id = await create(registry, name="Desk")
    agent_key = (await registry.get(f"/internal/agents/{agent_id}")).json()["agent_key"]

    outcome = await registry.dispatch(DeleteAgent(agent_id=agent_id))
    again = await registry.dispatch(DeleteAgent(agent_id=agent_id))
    late = await registry.dispatch(UpdateAgent(agent_id=agent_id, changes={"name": "x"}))
    successor = await create(registry, name="Desk")

    assert AgentDeleted.decode(outcome.payload) == AgentDeleted(agent_id=agent_id, agent_key=agent_key)
    assert (refusal(again)[0], refusal(late)[0]) == ("not_found_error", "not_found_error")
    for path in (agent_id, f"{agent_id}/versions", f"{agent_id}/versions/1.0.0", f"by-key/{agent_key}"):
        assert (await registry.get(f"/internal/agents/{path}")).status_code == 404
    listed = (await registry.get("/internal/agents")).json()
    assert [agent["id"] for agent in listed] == [successor]
    assert listed[0]["agent_key"] != agent_key


async def test_an_update_races_a_deletion_and_one_of_them_wins(registry: Registry) -> None:
    agent_id = await create(registry)

    update, delete = await asyncio.gather(
        registry.dispatch(UpdateAgent(agent_id=agent_id, changes={"name": "x"})),
        registry.dispatch(DeleteAgent(agent_id=agent_id)),
    )

    assert delete.type == AgentDeleted.TYPE
    assert update.type in (AgentUpdated.TYPE, UpdateAgent.rejected_type())
    assert (await registry.get(f"/internal/agents/{agent_id}")).status_code == 404


NOW = datetime(2026, 5, 4, 9, 30, 0, 123456, tzinfo=UTC)


@dataclass
class Store:
    reader: AgentReader
    transaction: Callable[[Callable[[PostgresAgentWriter | MemoryAgents], Awaitable[object]]], Awaitable[object]]

    async def add(self, *agents: object) -> None:
        for agent in agents:
            assert await self.transaction(lambda writer, agent=agent: writer.add(agent)) is True  # type: ignore[misc]


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    if request.param == "memory":
        agents = MemoryAgents()
        yield Store(agents, lambda work: work(agents))
        return
    infrastructure: Infrastructure = request.getfixturevalue("infrastructure")
    name = f"test_{token_hex(6)}"
    database = Database(await infrastructure.create_migrated(name, MIGRATIONS), name="registry", timeout=30.0)
    await database.open()

    async def transaction(work: Callable[[PostgresAgentWriter | MemoryAgents], Awaitable[object]]) -> object:
        async with Outbox(database).transaction() as writing:
            return await work(PostgresAgentWriter(writing))

    yield Store(PostgresAgentReader(database), transaction)
    await database.close()
    await infrastructure.drop_database(name)


async def test_what_was_added_is_read_back_as_it_was(store: Store) -> None:
    agent = stored_agent(
        name="Größe 🤖", is_public=True, allowed_origins=["https://example.com"], tools=["b", "a"], now=NOW
    )

    await store.add(agent)

    assert await store.reader.get(agent.id) == agent
    assert await store.reader.get_by_key(agent.agent_key) == agent
    assert await store.reader.get("unknown") is None
    assert await store.reader.get_by_key("unknown") is None


async def test_a_key_is_taken_once_and_so_is_an_id(store: Store) -> None:
    agent = stored_agent(agent_key="desk")
    await store.add(agent)

    taken = await store.transaction(lambda writer: writer.add(stored_agent(agent_key="desk")))
    with pytest.raises(Conflict):
        await store.transaction(lambda writer: writer.add(replace(agent, agent_key="other")))

    assert taken is False
    assert await store.reader.get_by_key("other") is None


async def test_a_saved_change_and_its_version(store: Store) -> None:
    agent = stored_agent(now=NOW)
    await store.add(agent)
    settings = agent.changed(UpdateAgentBody(is_shared=True), NOW + timedelta(minutes=1))
    configured = settings.changed(UpdateAgentBody(name="New"), NOW + timedelta(minutes=2))

    await store.transaction(lambda writer: writer.save(agent, settings, "user-1"))
    await store.transaction(lambda writer: writer.save(settings, configured, "user-2"))

    assert await store.reader.get(agent.id) == configured
    assert (await store.reader.versions(agent.id, limit=1, offset=0)).total == 2
    newest, first = (await store.reader.versions(agent.id, limit=5, offset=0)).items
    assert (newest.version_number, newest.created_by, newest.created_at) == (
        "1.0.1", "user-2", configured.updated_at,
    )  # fmt: skip
    assert first.system_config == agent.system_config
    assert await store.reader.version(agent.id, "1.0.0") == first
    assert (await store.reader.versions(agent.id, limit=1, offset=1)).items == [first]
    assert await store.reader.version(agent.id, "9.9.9") is None


async def test_newest_first_and_only_what_may_be_seen(store: Store) -> None:
    old, new = stored_agent(is_shared=True, now=NOW), stored_agent(now=NOW + timedelta(seconds=1))
    foreign = stored_agent(identity(company="company-2"), is_public=True)
    await store.add(new, old, foreign)
    everything = identity("user-9", scopes=[Scope.COMPANY_READ])

    assert await store.reader.visible_to(identity(), limit=None, offset=0) == [new, old]
    assert await store.reader.visible_to(identity(), limit=1, offset=1) == [old]
    assert await store.reader.visible_to(identity("user-2"), limit=None, offset=0) == [old]
    assert await store.reader.visible_to(everything, limit=None, offset=0) == [new, old]


async def test_a_deleted_agent_leaves_nothing_but_its_key(store: Store) -> None:
    agent = stored_agent(agent_key="desk")
    await store.add(agent)

    await store.transaction(lambda writer: writer.delete(agent, NOW))

    assert await store.reader.get(agent.id) is None
    assert await store.transaction(lambda writer: writer.lock(agent.id)) is None
    assert (await store.reader.versions(agent.id, limit=1, offset=0)).total == 0
    assert await store.transaction(lambda writer: writer.add(stored_agent(agent_key="desk"))) is False
