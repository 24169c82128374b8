"""Toolsets and secrets by commands and over the internal API, on PostgreSQL."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from libs.contracts.errors import ErrorInfo
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Command, CommandRejected
from libs.contracts.resources.agents import AgentCreated, CreateAgent
from libs.contracts.resources.secrets import DeleteSecret, PutSecret, SecretDeleted, SecretStored
from libs.contracts.resources.toolsets import (
    CreateToolset,
    DeleteToolset,
    RefreshToolset,
    ToolsetCreated,
    ToolsetDeleted,
    ToolsetRefreshed,
    ToolsetUpdated,
    UpdateToolset,
)
from libs.eventing.bus import BusUnavailable
from tests.integration.registry.toolset_world import World, offers, toolset_world
from tests.support.command_records import unchecked
from tests.support.registry import configuration, identity
from tests.support.waiting import until

STRANGER = identity("user-3", company="company-2")
MCP = {"name": "tickets", "type": "mcp", "url": "https://tickets.example.com/mcp"}
DOCUMENT = {"openapi": "3.1.0", "paths": {}}
CIPHERTEXT = base64.b64encode(b"\x01ciphertext of tests").decode()


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with toolset_world(database_url) as opened:
        yield opened


async def done(world: World, command: Command, caller: Identity | None = None) -> Any:
    outcome = await world.registry.dispatch(command, caller)
    assert outcome.type in {event.TYPE for event in type(command).OUTCOMES}, outcome.payload
    return json.loads(outcome.payload)


async def refused(world: World, command: Command, caller: Identity | None = None) -> ErrorInfo:
    outcome = await world.registry.dispatch(command, caller)
    assert outcome.type == command.rejected_type(), outcome.payload
    return CommandRejected.decode(outcome.payload).error


async def create(world: World, caller: Identity | None = None, **changes: Any) -> Any:
    """None leaves a field out."""
    toolset = {name: value for name, value in {**MCP, **changes}.items() if value is not None}
    return (await done(world, CreateToolset(toolset=toolset), caller))["toolset"]


async def test_created_is_told_and_can_be_read(world: World) -> None:
    toolset = await create(world, headers={"X-Team": "desk"}, approval="always", tool_settings={"find": {"retries": 0}})

    assert [(tool["name"], tool["approval"], tool["retries"]) for tool in toolset["tools"]] == [
        ("find", "always", 0),
        ("refund", "always", 2),
    ]
    assert (toolset["version"], toolset["url"], toolset["headers"]) == (1, MCP["url"], {"X-Team": "desk"})
    read = await world.registry.get("/internal/company/toolsets/tickets")
    assert read.json() == toolset
    page = (await world.registry.get("/internal/company/toolsets")).json()
    facts = {"total": 1, "total_is_exact": True, "has_more": False, "next": None}
    assert page == {"toolsets": [toolset], **facts}


async def test_the_runtime_gets_what_calls_need(world: World) -> None:
    await done(world, PutSecret(name="TOKEN", ciphertext=CIPHERTEXT))
    await create(world, headers={"Authorization": "Bearer ${secret:TOKEN}"})

    (toolset,) = (await world.registry.get("/internal/toolsets", name="tickets")).json()["toolsets"]

    assert toolset["secrets"] == {"TOKEN": CIPHERTEXT} == dict(world.runtime.asked[0].secrets)
    assert toolset["config"]["headers"] == {"Authorization": "Bearer ${secret:TOKEN}"}
    assert [tool["name"] for tool in toolset["tools"]] == ["find", "refund"]


async def test_a_binding_comes_back_and_is_not_shown(world: World) -> None:
    binding = {"method": "GET", "path": "/x"}
    world.runtime.discovery = lambda _: offers("list", binding=binding)

    toolset = await create(world, name="harbour", type="openapi", url=None, document=DOCUMENT)

    assert "binding" not in toolset["tools"][0]
    (connected,) = (await world.registry.get("/internal/toolsets", name="harbour")).json()["toolsets"]
    assert connected["tools"][0]["binding"] == binding
    assert "document" not in connected["config"]
    assert world.runtime.asked[0].config["document"] == DOCUMENT


async def test_a_document_is_shown_by_itself_only(world: World) -> None:
    created = await create(world, name="harbour", type="openapi", url=None, document=DOCUMENT)

    page = (await world.registry.get("/internal/company/toolsets")).json()
    single = (await world.registry.get("/internal/company/toolsets/harbour")).json()

    assert (created["document"], page["toolsets"][0]["document"], single["document"]) == (None, None, DOCUMENT)


async def test_a_name_is_taken_once_in_a_company(world: World) -> None:
    await create(world)
    await create(world, STRANGER)

    assert (await refused(world, CreateToolset(toolset=MCP))).type == "conflict_error"


async def test_twelve_at_once_with_one_name_make_one(world: World) -> None:
    commands = [CreateToolset(toolset={**MCP, "name": "twin"}) for _ in range(12)]

    outcomes = await asyncio.gather(*map(world.registry.dispatch, commands))

    assert [outcome.type for outcome in outcomes].count(ToolsetCreated.TYPE) == 1
    assert (await world.registry.get("/internal/company/toolsets")).json()["total"] == 1


async def test_an_option_of_a_newer_version_is_named_when_the_toolset_is_changed(
    world: World, database_url: str
) -> None:
    await create(world)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        # Versions are immutable, and this one is from elsewhere.
        await connection.execute("ALTER TABLE toolset_versions DISABLE TRIGGER USER")
        await connection.execute(
            'UPDATE toolset_versions SET config = (config::jsonb || \'{"new_option": "s3cret"}\')::json'
        )

    error = await refused(world, UpdateToolset(name="tickets", changes={"description": "all tickets"}))

    assert (error.type, [detail.loc for detail in error.details]) == ("validation_error", [["new_option"]])
    assert "s3cret" not in error.model_dump_json()


async def test_a_target_that_fails_leaves_nothing(world: World) -> None:
    failing = {"error": {"type": "validation_error", "message": "url: tickets.example.com did not answer"}}
    world.runtime.discovery = lambda _: (422, failing)

    error = await refused(world, CreateToolset(toolset=MCP))

    assert (error.type, error.message) == ("validation_error", "url: tickets.example.com did not answer")
    assert (await world.registry.get("/internal/company/toolsets")).json()["total"] == 0


async def test_a_runtime_that_is_away_is_an_outage(world: World) -> None:
    world.runtime.discovery = lambda _: (503, {"error": {"type": "service_unavailable", "message": "busy"}})

    assert (await refused(world, CreateToolset(toolset=MCP))).type == "service_unavailable"


@pytest.mark.parametrize(
    "names", [[], ["a b"], ["x" * 151], ["a\x00"], ["twin", "twin"], [f"tool-{number}" for number in range(501)]]
)
async def test_tools_that_cannot_be_used_are_refused(world: World, names: list[str]) -> None:
    world.runtime.discovery = lambda _: offers(*names)

    assert (await refused(world, CreateToolset(toolset=MCP))).type == "validation_error"


@pytest.mark.parametrize(
    ("toolset", "loc"),
    [
        ({**MCP, "type": "soap"}, []),
        ({**MCP, "name": "Tickets"}, ["name"]),
        ({**MCP, "headres": {}}, ["headres"]),
        ({**MCP, "headers": {"X": "${secret:NONE}"}}, ["headers", "X"]),
        ({**MCP, "tool_settings": {"refnd": {"approval": "always"}}}, ["tool_settings", "refnd"]),
    ],
)
async def test_what_is_not_valid_is_refused_with_details(world: World, toolset: Any, loc: list[str]) -> None:
    error = await refused(world, unchecked(CreateToolset, toolset=toolset))

    assert [detail.loc for detail in error.details or []] == [loc]


async def test_a_change_merges_and_makes_a_version(world: World) -> None:
    await create(world, description="Tickets.", headers={"X-Team": "desk"})

    outcome = await world.registry.dispatch(UpdateToolset(name="tickets", changes={"timeout_seconds": 5}))
    removed = (await done(world, UpdateToolset(name="tickets", changes={"headers": None})))["toolset"]

    assert outcome.type == ToolsetUpdated.TYPE
    changed = json.loads(outcome.payload)["toolset"]
    assert (changed["version"], changed["description"], changed["headers"]) == (2, "Tickets.", {"X-Team": "desk"})
    assert {tool["timeout_seconds"] for tool in changed["tools"]} == {5.0}
    assert (removed["version"], removed["headers"]) == (3, {})


async def test_a_change_that_changes_nothing_makes_no_version(world: World) -> None:
    await create(world, description="Tickets.")

    same = (await done(world, UpdateToolset(name="tickets", changes={"description": "Tickets."})))["toolset"]

    assert same["version"] == 1


async def test_a_document_replaces_its_address_and_the_other_way_round(world: World) -> None:
    await create(world, name="harbour", type="openapi", url=None, document=DOCUMENT)

    by_url = UpdateToolset(name="harbour", changes={"document_url": "https://harbour.example.com/openapi.json"})
    assert (await done(world, by_url))["toolset"]["document_url"] == "https://harbour.example.com/openapi.json"
    assert "document" not in world.runtime.asked[-1].config
    inline = UpdateToolset(name="harbour", changes={"document": DOCUMENT})
    assert (await done(world, inline))["toolset"]["document_url"] is None


@pytest.mark.parametrize("changes", [{"name": "other"}, {"type": "http"}, {"url": None}, {"tools": []}, {"x": 1}])
async def test_a_change_that_does_not_fit_is_refused(world: World, changes: dict[str, Any]) -> None:
    await create(world)

    assert (await refused(world, unchecked(UpdateToolset, name="tickets", changes=changes))).type == "validation_error"


async def test_a_refresh_finds_new_tools(world: World) -> None:
    await create(world, tool_settings={"refund": {"approval": "always"}})
    world.runtime.discovery = lambda _: offers("find", "cancel")

    outcome = await world.registry.dispatch(RefreshToolset(name="tickets"))
    again = (await done(world, RefreshToolset(name="tickets")))["toolset"]

    assert outcome.type == ToolsetRefreshed.TYPE
    refreshed = json.loads(outcome.payload)["toolset"]
    assert (refreshed["version"], [tool["name"] for tool in refreshed["tools"]]) == (2, ["find", "cancel"])
    assert again["version"] == 2
    assert again["refreshed_at"] > refreshed["refreshed_at"]


async def test_tools_that_were_left_out_are_named_until_a_refresh_finds_them(world: World) -> None:
    status, found = offers("find")
    world.runtime.discovery = lambda _: (
        status,
        {**found, "left_out": [{"name": "refund", "reason": "it has no schema"}]},
    )
    created = await create(world)

    [warning] = created["warnings"]
    assert (warning["type"], warning["loc"]) == ("tool_left_out", ["tools", "refund"])
    assert (await world.registry.get("/internal/company/toolsets/tickets")).json() == created
    [listed] = (await world.registry.get("/internal/company/toolsets")).json()["toolsets"]
    assert listed["warnings"] == [warning]

    world.runtime.discovery = lambda _: (status, found)
    refreshed = (await done(world, RefreshToolset(name="tickets")))["toolset"]
    assert (refreshed["warnings"], refreshed["version"]) == ([], 1)


async def test_a_refresh_that_fails_leaves_the_version(world: World) -> None:
    created = await create(world)
    world.runtime.discovery = lambda _: (422, {"error": {"type": "validation_error", "message": "no"}})

    assert (await refused(world, RefreshToolset(name="tickets"))).message == "no"
    assert (await world.registry.get("/internal/company/toolsets/tickets")).json() == created


async def test_an_earlier_version_is_there_for_turns_that_began_with_it(world: World) -> None:
    await create(world)
    world.runtime.discovery = lambda _: offers("find")
    await done(world, RefreshToolset(name="tickets"))

    async def connected(*versions: int) -> list[tuple[int, int]]:
        answer = await world.registry.get("/internal/toolsets", name=["tickets"], version=list(versions))
        return [(toolset["version"], len(toolset["tools"])) for toolset in answer.json()["toolsets"]]

    assert await connected() == [(2, 1)]
    assert await connected(1) == [(1, 2)]
    assert await connected(7) == []
    assert (await world.registry.get("/internal/toolsets", name=["a", "b"], version=[1])).status_code == 400


async def test_a_version_never_changes(world: World, database_url: str) -> None:
    await create(world)

    with psycopg.connect(database_url) as connection, pytest.raises(psycopg.errors.RestrictViolation):
        connection.execute("UPDATE toolset_versions SET tools = '[]'")


async def test_superseded_versions_and_tombstones_expire(world: World, database_url: str) -> None:
    await create(world)
    await done(world, UpdateToolset(name="tickets", changes={"description": "x"}))
    await create(world, name="gone")
    await done(world, DeleteToolset(name="gone"))
    await done(world, PutSecret(name="TOKEN", ciphertext=CIPHERTEXT))
    await done(world, DeleteSecret(name="TOKEN"))
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE toolset_versions SET superseded_at = now() - interval '36 days' WHERE version = 1")
        connection.execute("UPDATE toolsets SET deleted_at = now() - interval '36 days' WHERE name = 'gone'")
        connection.execute("UPDATE secrets SET deleted_at = now() - interval '36 days'")

        service = world.registry.service
        async with service.database.connection() as own:
            await service.retention.purge(own)

        left = connection.execute("SELECT version FROM toolset_versions").fetchall()
        names = connection.execute("SELECT name FROM toolsets").fetchall()
        secrets = connection.execute("SELECT count(*) FROM secrets").fetchone()
    assert (left, names, secrets) == ([(2,)], [("tickets",)], (0,))


async def test_deleted_is_gone_and_its_name_free(world: World) -> None:
    await create(world)

    outcome = await world.registry.dispatch(DeleteToolset(name="tickets"))

    assert (outcome.type, json.loads(outcome.payload)) == (ToolsetDeleted.TYPE, {"name": "tickets"})
    assert (await world.registry.get("/internal/company/toolsets/tickets")).status_code == 404
    assert (await world.registry.get("/internal/toolsets", name="tickets")).json() == {"toolsets": []}
    assert (await create(world))["version"] == 1


async def test_an_agent_of_a_deleted_toolset_still_opens_sessions(world: World) -> None:
    await create(world)
    agent_id = new_id()
    agent = configuration(agent_type="react_agent", tools=["tickets.find"])
    assert (await world.registry.dispatch(CreateAgent(agent_id=agent_id, agent=agent))).type == AgentCreated.TYPE
    await done(world, DeleteToolset(name="tickets"))

    opened = await world.registry.post("/internal/agents/normalize", {"agent_id": agent_id})
    inline = await world.registry.post("/internal/agents/normalize", agent)

    assert (opened.status_code, opened.json()["agent_config"]["tools"]) == (200, ["tickets.find"])
    assert inline.status_code == 422


async def test_tools_are_listed_built_in_ones_first(world: World) -> None:
    await create(world)
    await create(world, name="fares")

    async def names(**page: int) -> list[str]:
        answer = (await world.registry.get("/internal/company/tools", **page)).json()
        assert answer["total"] == 5
        return [tool["name"] for tool in answer["tools"]]

    everything = ["calculator", "fares.find", "fares.refund", "tickets.find", "tickets.refund"]
    assert await names() == everything
    assert [name for offset in range(0, 6, 2) for name in await names(limit=2, offset=offset)] == everything


async def test_a_tool_can_be_tried(world: World) -> None:
    await done(world, PutSecret(name="TOKEN", ciphertext=CIPHERTEXT))
    await create(world, headers={"X": "${secret:TOKEN}"}, approval="always", timeout_seconds=600)
    path = "/internal/company/toolsets/tickets/tools/{}/call"

    tried = await world.registry.post(path.format("find"), {"arguments": {"id": 7}})
    unknown = await world.registry.post(path.format("fnd"), {"arguments": {}})

    assert tried.json() == {"status": "completed", "output": "42", "seconds": 0.1}
    assert unknown.status_code == 404
    (call,) = world.runtime.called
    assert (call.tool, call.arguments, call.toolset.secrets) == ("find", {"id": 7}, {"TOKEN": CIPHERTEXT})
    assert [tool.timeout_seconds for tool in call.toolset.tools] == [120.0]


async def test_a_secret_is_stored_replaced_and_deleted(world: World, database_url: str) -> None:
    first = await world.registry.dispatch(PutSecret(name="TOKEN", ciphertext=CIPHERTEXT))
    other = base64.b64encode(b"\x01another").decode()
    second = await world.registry.dispatch(PutSecret(name="TOKEN", ciphertext=other))

    assert first.type == second.type == SecretStored.TYPE
    assert first.subject == second.subject
    shown = (await world.registry.get("/internal/company/secrets/TOKEN")).json()
    assert set(shown) == {"name", "created_at", "updated_at"}
    assert shown["updated_at"] > shown["created_at"]
    assert (await world.registry.get("/internal/company/secrets")).json()["secrets"] == [shown]
    deleted = await world.registry.dispatch(DeleteSecret(name="TOKEN"))
    assert deleted.type == SecretDeleted.TYPE
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT ciphertext FROM secrets").fetchall() == [(b"",)]
    assert (await refused(world, DeleteSecret(name="TOKEN"))).type == "not_found_error"


async def test_a_company_has_a_bounded_number_of_secrets(world: World, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            """INSERT INTO secrets SELECT 'id-' || n, 'company-1', 'S' || n, '', now(), now()
               FROM generate_series(1, 200) n"""
        )

    assert (await refused(world, PutSecret(name="ONE_MORE", ciphertext=CIPHERTEXT))).type == "conflict_error"
    await done(world, PutSecret(name="S7", ciphertext=CIPHERTEXT))
    await done(world, PutSecret(name="FIRST", ciphertext=CIPHERTEXT), STRANGER)


async def test_a_company_has_a_bounded_number_of_toolsets(world: World, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            """INSERT INTO toolsets SELECT 'id-' || n, 'company-1', 's' || n, 'mcp', 1, now(), now(), now()
               FROM generate_series(1, 100) n"""
        )

    assert (await refused(world, CreateToolset(toolset=MCP))).type == "conflict_error"


async def test_slow_targets_of_one_company_leave_others_alone(world: World) -> None:
    world.runtime.answering.clear()
    commands = [CreateToolset(toolset={**MCP, "name": f"slow-{number}"}) for number in range(21)]
    slow = [asyncio.create_task(world.registry.dispatch(command)) for command in commands]
    await until(lambda: any(task.done() for task in slow))

    (turned_away,) = [task.result() for task in slow if task.done()]
    assert CommandRejected.decode(turned_away.payload).error.type == "rate_limit_error"
    assert len(world.runtime.asked) == 4
    theirs = asyncio.create_task(create(world, STRANGER))
    await until(lambda: len(world.runtime.asked) == 5)
    world.runtime.answering.set()
    await theirs
    outcomes = await asyncio.gather(*slow)
    assert [outcome.type for outcome in outcomes].count(ToolsetCreated.TYPE) == 20


async def test_the_same_command_twice_asks_the_target_once(world: World) -> None:
    command, command_id = CreateToolset(toolset=MCP), new_id()

    await world.registry.dispatch(command, command_id=command_id)
    # The outcome is published again, for which there is no broker here.
    with pytest.raises(BusUnavailable):
        await world.registry.dispatch(command, command_id=command_id)

    assert len(world.runtime.asked) == 1
