"""Sessions, stored agents and turns, from their beginning to their end."""

import asyncio
import re
import signal

import pytest

from tests.e2e.api import Api, check_error, configuration, unique
from tests.e2e.event_log import ENDS, EventLog, count_by_subject
from tests.e2e.held_model import HeldModel
from tests.e2e.running_stack import RunningStack
from tests.support.waiting import until

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
AGENT_FIELDS = {
    "id", "agent_key", "name", "architecture", "entry_point", "is_public", "is_shared", "origin_url", "owner",
    "company", "system_config", "version_number", "config_hash", "created_at", "updated_at",
}  # fmt: skip


async def test_a_session_from_its_creation_to_its_end(api: Api, event_log: EventLog) -> None:
    label = unique("session")
    wanted = configuration(name="Teacher", system_prompt="Explain.", llm_config={"model": "openai:stub"})
    reply = await api.http.post("/sessions/", json=wanted, headers={"x-correlation-id": label})
    created = reply.json()
    assert set(created) == {"success", "session_id", "config_hash"}
    assert created["success"] is True
    session_id = created["session_id"]
    assert reply.headers["location"] == f"/api/v1/sessions/{session_id}/"
    session = (await api.http.get(f"/sessions/{session_id}/")).json()
    assert (session["session_id"], session["status"]) == (session_id, "active")
    assert session["config_hash"] == created["config_hash"]
    assert TIMESTAMP.fullmatch(session["created_at"])
    assert session["agent_config"]["name"] == "Teacher"
    listed = (await api.http.get("/sessions/", params={"limit": 200})).json()
    assert session in listed["sessions"]
    assert (await api.http.delete(f"/sessions/{session_id}/", headers={"x-correlation-id": label})).status_code == 204
    check_error(await api.http.get(f"/sessions/{session_id}/"), 404, "not_found_error")
    events = await event_log.read([label])
    assert [(event.name, event.subject) for event in events] == [
        ("session.created", session_id),
        ("session.deleted", session_id),
    ]


async def test_an_agent_from_its_creation_to_its_end(api: Api) -> None:
    name = f"Head of {unique('Office')}"
    reply = await api.http.post("/agent/", json={**configuration(), "name": name, "entry_point": "greeting"})
    assert reply.status_code == 201
    agent = reply.json()
    assert set(agent) >= AGENT_FIELDS
    path = f"/agent/{agent['id']}/"
    assert reply.headers["location"] == f"/api/v1{path}"
    assert re.fullmatch(name.lower().replace(" ", "-") + "-[a-z0-9]{6}", agent["agent_key"])
    assert (agent["name"], agent["architecture"], agent["entry_point"]) == (name, "llm_agent", "greeting")
    assert (agent["is_public"], agent["is_shared"], agent["origin_url"]) == (False, False, None)
    me = (await api.http.get("/me/")).json()
    assert (agent["owner"], agent["company"]) == (me["user_id"], me["company_id"])
    assert TIMESTAMP.fullmatch(agent["created_at"])
    assert (await api.http.get(path)).json() == agent
    assert agent in (await api.http.get("/agent/")).json()
    assert (await api.http.delete(path)).status_code == 204
    check_error(await api.http.get(path), 404, "not_found_error")
    check_error(await api.http.patch(path, json={"name": "x"}), 404, "not_found_error")


async def test_sessions_of_stored_agents(api: Api) -> None:
    agent = (await api.http.post("/agent/", json={**configuration(), "name": unique("agent")})).json()
    for reference in ({"agent_id": agent["id"]}, {"agent_key": agent["agent_key"]}):
        reply = await api.http.post("/sessions/", json=reference)
        assert reply.status_code == 201, reply.text
        assert reply.json()["config_hash"] == agent["config_hash"]
        session_id = reply.json()["session_id"]
        session = (await api.http.get(f"/sessions/{session_id}/")).json()
        assert session["agent_id"] == agent["id"]
        assert session["agent_config"] == agent["system_config"]
    # A session keeps its configuration when the agent goes.
    assert (await api.http.delete(f"/agent/{agent['id']}/")).status_code == 204
    assert (await api.execute(session_id, "hello")).status_code == 200
    for reference in ({"agent_id": agent["id"]}, {"agent_key": agent["agent_key"]}, {"agent_id": "no id"}):
        check_error(await api.http.post("/sessions/", json=reference), 404, "not_found_error")
    both = {"agent_id": agent["id"], "agent_key": agent["agent_key"]}
    check_error(await api.http.post("/sessions/", json=both), 422, "validation_error")


async def test_what_agents_can_be_built_from(api: Api) -> None:
    tools = (await api.http.get("/tools/")).json()["tools"]
    assert {"calculator", "current_time", "http_get"} <= {tool["name"] for tool in tools}
    models = await api.http.get("/models/")
    assert models.status_code == 200
    assert "builtin:extractive" in models.text
    assert "sk-of-the-tests" not in models.text


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_http_get_does_not_reach_this_machine(api: Api, model: HeldModel, host: str) -> None:
    """Also when the operator allows the name: what is behind it is no public address."""
    session = await api.session("openai:stub-fetch", tools=["http_get"])
    address = model.base_url.replace("127.0.0.1", host)
    reply = await api.execute(session, address)
    (call,) = reply.json()["response"]["tool_calls"]
    assert (call["name"], call["arguments"], call["status"]) == ("http_get", {"url": address}, "failed")
    assert "isn't public" in call["output"]
    assert model.visits == 0


async def test_the_blocking_reply_and_the_turn_say_the_same(api: Api) -> None:
    session = await api.session("openai:stub-tool", tools=["calculator"])
    reply = await api.execute(session, "what is 6*7?")
    body = reply.json()
    assert body["success"] is True
    (call,) = body["response"]["tool_calls"]
    assert (call["name"], call["arguments"], call["status"]) == ("calculator", {"expression": "6*7"}, "completed")
    assert call["output"] == "6*7 = 42"
    assert body["usage"]["model_calls"] == 2
    turn = await api.turn(session, body["turn_id"])
    assert turn["reply"] == body
    question, answer = await api.messages(session)
    assert (question["id"], answer["id"]) == (body["user_message_id"], body["message_id"])
    assert answer["content"] == body["response"]["content"]


@pytest.mark.failover("turns of a worker that stops in order")
async def test_the_runtime_restarts_gracefully_under_load(
    breakable: RunningStack, api: Api, event_log: EventLog
) -> None:
    sessions = await api.sessions(12, "openai:stub-slow-200-echo")
    texts = [[unique("load") for _ in range(4)] for _ in sessions]

    async def converse(session: str, own: list[str]) -> None:
        for text in own:
            headers = {"x-correlation-id": text, "idempotency-key": text}
            path = f"/runtime/{session}/execute/"
            reply = await api.persistently("POST", path, json={"content": text}, headers=headers)
            assert reply.status_code == 200, reply.text

    conversations = asyncio.gather(*map(converse, sessions, texts))
    await until(lambda: _answered(api, sessions[0]))
    killed = await asyncio.to_thread(breakable.kill, "runtime", signal.SIGTERM)
    await conversations
    await asyncio.to_thread(breakable.wait_replaced, "runtime", killed)
    for session, own in zip(sessions, texts, strict=True):
        history = await until(lambda session=session: _answered(api, session, 4))
        assert [message["content"] for message in history] == [
            line for text in own for line in (text, f"You said: {text}")
        ]
    ends = count_by_subject(await event_log.ended([text for own in texts for text in own]), *ENDS)
    assert len(ends) == 48
    assert set(ends.values()) == {1}


async def _answered(api: Api, session: str, turns: int = 1) -> list[dict[str, object]] | None:
    history = await api.messages(session)
    return history if sum(message["role"] == "assistant" for message in history) >= turns else None
