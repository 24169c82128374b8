"""Turns that wait for an answer, on two replicas of the gateway, before a real runtime."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.integration.gateway.conftest import IN_ONE_LOOP, Installation, execute
from tests.integration.gateway.test_turn_streams import Reader
from tests.support.gateway import error_of
from tests.support.waiting import until

pytestmark = IN_ONE_LOOP
APPROVED: dict[str, Any] = {"tools": ["calculator"], "tool_policies": {"calculator": {"approval": "always"}}}
MODEL = "openai:stub-tool"
KEY = {"Idempotency-Key": "once"}
BODY = {"content": "what is it?"}


async def waiting(installation: Installation) -> tuple[str, str, str]:
    """A session, its waiting turn, and the path of the turn's action."""
    session = await installation.session(MODEL, **APPROVED)
    answer = await installation.clients[0].post(f"/runtime/{session}/execute/", json=BODY, headers=KEY)
    assert (answer.status_code, answer.json()["status"]) == (202, "waiting"), answer.text
    [action] = answer.json()["required_actions"]
    turn = answer.json()["turn_id"]
    return session, turn, f"/runtime/{session}/turns/{turn}/actions/{action['action_id']}/"


async def ended(client: httpx.AsyncClient, session: str, turn: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def look() -> bool:
        found.update((await client.get(f"/runtime/{session}/turns/{turn}/")).json())
        return found["status"] == "completed"

    await until(look)
    return found


async def test_the_same_call_is_202_and_later_200_on_any_replica(installation: Installation) -> None:
    first, second = installation.clients
    session, turn, place = await waiting(installation)
    execute_path = f"/runtime/{session}/execute/"
    again = await second.post(execute_path, json=BODY, headers=KEY)
    assert (again.status_code, again.json()["turn_id"], again.json()["status"]) == (202, turn, "waiting")
    assert (await second.post(place, json={"decision": "approve"})).status_code == 200
    done = await first.post(execute_path, json=BODY, headers=KEY)
    assert (done.status_code, done.json()["turn_id"]) == (200, turn)
    assert done.json()["response"]["tool_calls"][0]["status"] == "completed"


async def test_a_stream_goes_on_elsewhere_in_the_middle_of_a_wait(installation: Installation) -> None:
    first, second = installation.clients
    session = await installation.session(MODEL, **APPROVED)
    reader, late = Reader(session), Reader(session)
    await reader.execute(first, 3)
    assert reader.names == ["turn.started", "turn.tool_call.started", "turn.action_required"]
    late.turn_id = reader.turn_id
    going_on = [asyncio.create_task(reader.follow(second)), asyncio.create_task(late.follow(first))]
    [action] = (await second.get("/actions/", params={"session_id": session})).json()["actions"]
    place = f"/runtime/{session}/turns/{reader.turn_id}/actions/{action['action_id']}/"
    assert (await first.post(place, json={"decision": "deny", "reason": "not today"})).status_code == 200
    await asyncio.gather(*going_on)
    assert reader.names == late.names == [
        "turn.started", "turn.tool_call.started", "turn.action_required", "turn.action_resolved",
        "turn.tool_call.failed", "turn.completed",
    ]  # fmt: skip
    assert reader.texts[max(reader.texts)] == reader.end["response"]["content"]
    assert "not today" in reader.end["response"]["tool_calls"][0]["output"]


async def test_of_answers_at_once_the_first_counts(installation: Installation) -> None:
    first, second = installation.clients
    for _ in range(5):
        session, turn, place = await waiting(installation)
        answers = await asyncio.gather(
            first.post(place, json={"decision": "approve"}),
            second.post(place, json={"decision": "deny"}),
            second.post(place, json={"decision": "approve"}),
            first.post(place, json={"decision": "deny"}),
        )
        assert sorted(answer.status_code for answer in answers) == [200, 200, 409, 409]
        assert [answer.status_code for answer in answers[:2]] == [answer.status_code for answer in answers[2:]]
        [call] = (await ended(first, session, turn))["reply"]["response"]["tool_calls"]
        assert call["status"] == ("completed" if answers[0].status_code == 200 else "failed")


async def test_an_answer_after_the_expiry_is_too_late(installation: Installation) -> None:
    client = installation.clients[1]
    session, turn, place = await waiting(installation)
    expire = "UPDATE waits SET expires_at = now() - interval '1 second' WHERE turn_id = %s"
    await execute(installation.runtime_database, expire, turn)
    late = await client.post(place, json={"decision": "approve"})
    assert (late.status_code, error_of(late)["type"]) == (409, "conflict_error")
    [call] = (await ended(client, session, turn))["reply"]["response"]["tool_calls"]
    assert call["status"] == "failed"
    assert (await client.post(place, json={"decision": "approve"})).status_code == 409
    assert (await client.get("/actions/", params={"session_id": session})).json()["total"] == 0


@pytest.mark.parametrize("how", ["cancelled", "deleted"])
async def test_an_answer_to_a_turn_that_is_gone_is_a_conflict(installation: Installation, how: str) -> None:
    first, second = installation.clients
    session, turn, place = await waiting(installation)
    if how == "cancelled":
        assert (await first.post(f"/runtime/{session}/turns/{turn}/cancel/")).status_code == 200
    else:
        assert (await first.delete(f"/sessions/{session}/")).status_code == 204
    late = await second.post(place, json={"decision": "approve"})
    assert (late.status_code, error_of(late)["type"]) == (409, "conflict_error")
