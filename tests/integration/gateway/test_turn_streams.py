"""Streams of turns on two replicas of the gateway, before a real runtime, on the real broker and databases."""

import asyncio
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.turn_reader import Reader
from tests.integration.gateway.conftest import IN_ONE_LOOP, Installation, execute
from tests.servers.model_stub import TEXT
from tests.support.waiting import until

pytestmark = IN_ONE_LOOP


WITH_TOOL = ["turn.started", "turn.tool_call.started", "turn.tool_call.completed", "turn.completed"]


@pytest.mark.failover("a client's stream, by another replica")
async def test_a_stream_goes_on_at_the_other_replica_after_every_few_events(installation: Installation) -> None:
    apis = [Api(client) for client in installation.clients]
    reader = Reader(apis[0], await installation.session("openai:stub-tool-slow-2000", tools=["calculator"]))
    await reader.execute_for(1, "hello")
    turns = 0
    while not reader.has_ended:
        turns += 1
        reader.api = apis[turns % 2]
        await reader.follow_for(3)
    reader.check()
    assert (reader.names, reader.texts[max(reader.texts)]) == (WITH_TOOL, TEXT)
    # Whoever is late gets more text at once.
    assert turns > 1
    path = f"/runtime/{reader.session}/turns/{reader.turn_id}/events/"
    ended = await installation.clients[0].get(path, headers={"Last-Event-ID": reader.last_id})
    assert ended.status_code == 204


async def test_an_old_turn_is_replayed_from_the_log_and_an_older_one_from_its_row(installation: Installation) -> None:
    session = await installation.session("openai:stub-tool", tools=["calculator"])
    api, elsewhere = (Api(client) for client in installation.clients)
    first = Reader(api, session)
    await first.execute("hello")
    first.check()
    assert first.names == WITH_TOOL

    async def logged() -> bool:
        statement = "SELECT count(*) FROM timeline_events WHERE subject = %s"
        return (await execute(installation.timeline_database, statement, first.turn_id))[0][0] == 4

    await until(logged)
    await execute(installation.runtime_database, "DELETE FROM outbox WHERE subject = %s", first.turn_id)
    from_log = Reader(elsewhere, session, first.turn_id)
    await from_log.follow()
    from_log.check()
    assert from_log.names == WITH_TOOL
    assert {event.id for event in from_log.events} <= {event.id for event in first.events}, "a step's text comes whole"
    await execute(installation.timeline_database, "DELETE FROM timeline_events WHERE subject = %s", first.turn_id)
    from_row = Reader(api, session, first.turn_id)
    await from_row.follow()
    assert from_row.names == ["turn.completed"]
    assert from_row.events[-1].data == first.events[-1].data
    assert list(from_row.texts.values()) == [TEXT]


APPROVED: dict[str, Any] = {"tools": ["calculator"], "tool_policies": {"calculator": {"approval": "always"}}}
MODEL = "openai:stub-tool"


async def test_a_stream_goes_on_elsewhere_in_the_middle_of_a_wait(installation: Installation) -> None:
    first, second = installation.clients
    session = await installation.session(MODEL, **APPROVED)
    reader, late = Reader(Api(first), session), Reader(Api(first), session)
    await reader.execute_for(3, "hello")
    assert reader.names == ["turn.started", "turn.tool_call.started", "turn.action_required"]
    late.turn_id, reader.api = reader.turn_id, Api(second)
    going_on = [asyncio.create_task(reader.follow()), asyncio.create_task(late.follow())]
    [action] = (await second.get("/actions/", params={"session_id": session})).json()["actions"]
    place = f"/runtime/{session}/turns/{reader.turn_id}/actions/{action['action_id']}/"
    assert (await first.post(place, json={"decision": "deny", "reason": "not today"})).status_code == 200
    await asyncio.gather(*going_on)
    assert reader.names == late.names == [
        "turn.started", "turn.tool_call.started", "turn.action_required", "turn.action_resolved",
        "turn.tool_call.failed", "turn.completed",
    ]  # fmt: skip
    assert "not today" in reader.check()["response"]["tool_calls"][0]["output"]
