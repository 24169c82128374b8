"""One suite for the store in PostgreSQL and for the fake that unit tests use."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from secrets import token_hex

import pytest

from libs.contracts.errors import Conflict
from libs.contracts.identity import Scope
from libs.contracts.resources.agents import UpdateAgentBody
from libs.eventing import Outbox
from libs.persistence import Database
from services.registry.adapters.postgres.agents import PostgresAgentReader, PostgresAgentWriter
from services.registry.bootstrap import MIGRATIONS
from services.registry.domain.ports import AgentReader
from tests.support.infrastructure import Infrastructure
from tests.support.registry import MemoryAgents, identity, stored_agent

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
