"""Writes: the command that is sent, the outcome that comes back, and repeats."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from libs.contracts.errors import ErrorKind
from libs.contracts.identifiers import new_id
from libs.contracts.messages import Event
from libs.contracts.resources.agents import (
    AgentCreated,
    AgentDeleted,
    AgentUpdated,
    CreateAgent,
    DeleteAgent,
    UpdateAgent,
)
from libs.contracts.resources.sessions import CreateSession, DeleteSession, ForkSession, SessionCreated, SessionDeleted
from libs.contracts.resources.turns import CancelTurn, CancelTurnAccepted
from tests.support.gateway import Gateway, Sent, error_of, rejected

CONFIGURATION = {"name": "Support", "agent_type": "llm_agent"}
NORMALIZED = {"agent_config": {**CONFIGURATION, "tools": []}, "config_hash": "abc", "agent_id": None}


def agent(agent_id: str) -> dict[str, Any]:
    return {
        "id": agent_id,
        "agent_key": "support",
        "name": "Support",
        "architecture": "llm_agent",
        "entry_point": "",
        "is_public": False,
        "is_shared": False,
        "origin_url": None,
        "allowed_origins": [],
        "owner": "user-1",
        "company": "company-1",
        "system_config": CONFIGURATION,
        "version_number": "1.0.0",
        "config_hash": "abc",
        "created_at": "2030-01-01T00:00:00.000000Z",
        "updated_at": "2030-01-01T00:00:00.000000Z",
    }


def upstream(sent: Sent) -> Iterable[Event]:
    """Does everything at once."""
    match sent.command:
        case CreateAgent():
            yield AgentCreated(agent=agent(sent.command.agent_id))
        case UpdateAgent():
            yield AgentUpdated(agent=agent(sent.command.agent_id))
        case DeleteAgent():
            yield AgentDeleted(agent_id=sent.command.agent_id, agent_key="support")
        case CreateSession():
            yield SessionCreated(session_id=sent.command.session_id, config_hash=sent.command.config_hash)
        case ForkSession():
            yield SessionCreated(session_id=sent.command.session_id, config_hash="abc")
        case DeleteSession():
            yield SessionDeleted(session_id=sent.command.session_id)
        case CancelTurn():
            yield CancelTurnAccepted(session_id=sent.command.session_id, turn_id=sent.command.turn_id)


async def test_an_agent_is_created_by_a_command_with_the_callers_identity(public: Gateway) -> None:
    public.bus.upstream = upstream
    response = await public.client.post("/agent/", json=CONFIGURATION, headers={"X-Correlation-ID": "mine"})
    sent = public.bus.sent[0]
    assert response.status_code == 201
    assert response.json() == agent(sent.command_id)
    assert response.headers["location"] == f"/api/v1/agent/{sent.command_id}/"
    assert sent.subject == sent.command_id
    assert json.loads(sent.command.encode()) == {"agent_id": sent.command_id, "agent": CONFIGURATION}
    assert (sent.identity.company_id, sent.identity.user_id) == ("company-1", "user-1")
    assert sent.correlation_id == response.headers["x-correlation-id"] == "mine"


@pytest.mark.parametrize(
    ("given", "kept"),
    [(f"00-{'a' * 32}-{'b' * 16}-01", True), ("00-nonsense", False), (f"00-{'A' * 32}-{'b' * 16}-01", False)],
)
async def test_the_callers_trace_goes_on_unless_it_is_malformed(public: Gateway, given: str, kept: bool) -> None:
    public.bus.upstream = upstream
    await public.client.delete(f"/agent/{new_id()}/", headers={"traceparent": given})
    assert public.bus.sent[0].traceparent == (given if kept else None)


async def test_an_update_carries_only_what_was_given(public: Gateway) -> None:
    public.bus.upstream = upstream
    agent_id = new_id()
    response = await public.client.patch(f"/agent/{agent_id}/", json={"is_shared": True, "origin_url": None})
    assert (response.status_code, response.json()["id"]) == (200, agent_id)
    changes = {"is_shared": True, "origin_url": None}
    assert json.loads(public.bus.sent[0].command.encode()) == {"agent_id": agent_id, "changes": changes}
    assert public.bus.sent[0].subject == agent_id


async def test_a_session_is_created_with_the_normalised_configuration(public: Gateway) -> None:
    public.bus.upstream = upstream
    public.upstreams.answers["POST", "registry", "/internal/agents/normalize"] = (200, NORMALIZED)
    response = await public.client.post("/sessions/", json=CONFIGURATION)
    session_id = public.bus.sent[0].command_id
    assert response.status_code == 201
    assert response.json() == {"success": True, "session_id": session_id, "config_hash": "abc"}
    command = public.bus.sent[0].command
    assert isinstance(command, CreateSession)
    assert command.agent_config == NORMALIZED["agent_config"]


@pytest.mark.parametrize(
    "own", [{"knowledge_bases": [new_id()]}, {"tools": ["orders.find"]}, {"tool_policies": {"*": {}}}]
)
async def test_what_names_something_of_the_company_is_checked_for_every_session(
    public: Gateway, own: dict[str, Any]
) -> None:
    public.bus.upstream = upstream
    public.upstreams.answers["POST", "registry", "/internal/agents/normalize"] = (200, NORMALIZED)
    for _ in range(3):
        assert (await public.client.post("/sessions/", json=CONFIGURATION)).status_code == 201
    assert len(public.upstreams.asked_paths("normalize")) == 1
    for _ in range(3):
        assert (await public.client.post("/sessions/", json={**CONFIGURATION, **own})).status_code == 201
    assert len(public.upstreams.asked_paths("normalize")) == 4
    assert len({sent.command_id for sent in public.bus.sent}) == 6


async def test_a_session_begins_with_a_conversation_from_elsewhere(public: Gateway) -> None:
    public.upstreams.answers["POST", "registry", "/internal/agents/normalize"] = (200, NORMALIZED)
    public.bus.upstream = lambda sent: [SessionCreated(session_id=sent.command_id, config_hash="abc")]
    call = {"id": "c1", "name": "fare", "arguments": {"crossing": 4711}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "What is the fare?"}]},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "340 crowns"},
        {"role": "assistant", "content": "340 crowns."},
    ]
    response = await public.client.post("/sessions/", json={"agent_key": "support", "messages": messages})
    assert response.status_code == 201, response.text
    command = public.bus.sent[0].command
    assert isinstance(command, CreateSession)
    assert [each.model_dump(exclude_defaults=True) for each in command.messages] == messages
    # The registry is asked for the agent alone.
    assert public.upstreams.asked[-1][3] == {"agent_key": "support"}


async def test_a_conversation_that_is_none_opens_no_session(public: Gateway) -> None:
    cases: list[Any] = [
        (7, ["messages"]),
        ([{"role": "system", "content": "x"}], ["messages", 0, "role"]),
        ([{"role": "user", "content": "x", "name": "bob"}], ["messages", 0, "name"]),
        ([{"role": "user", "content": "x", "tool_call_id": "c1"}], ["messages", 0]),
        ([{"role": "tool", "content": "x"}], ["messages", 0]),
        ([{"role": "user", "content": "x"}] * 2_001, ["messages"]),
    ]
    for messages, place in cases:
        response = await public.client.post("/sessions/", json={"agent_key": "support", "messages": messages})
        assert response.status_code == 422, response.text
        assert error_of(response)["details"][0]["loc"] == place
        assert public.bus.sent == []


async def test_a_configuration_that_the_registry_refuses_opens_no_session(public: Gateway) -> None:
    detail = {"loc": ["tools", 0], "type": "unknown_tool", "message": "no such tool", "hint": None}
    error = {"type": "validation_error", "message": "not valid", "details": [detail]}
    public.upstreams.answers["POST", "registry", "/internal/agents/normalize"] = (422, {"error": error})
    response = await public.client.post("/sessions/", json={**CONFIGURATION, "tools": ["x"]})
    assert response.status_code == 422
    assert error_of(response)["details"] == [detail]
    assert public.bus.sent == []


@pytest.mark.parametrize("body", [None, {}, {"up_to_turn_id": None}])
async def test_a_session_is_forked_whole(public: Gateway, body: dict[str, Any] | None) -> None:
    public.bus.upstream = upstream
    source = new_id()
    response = await public.client.post(f"/sessions/{source}/fork/", json=body)
    sent = public.bus.sent[0]
    assert response.status_code == 201
    assert response.json() == {"success": True, "session_id": sent.command_id, "config_hash": "abc"}
    assert response.headers["location"] == f"/api/v1/sessions/{sent.command_id}/"
    assert sent.command == ForkSession(session_id=sent.command_id, source_session_id=source)


@pytest.mark.parametrize("bound", ["up_to_turn_id", "before_turn_id"])
async def test_a_session_is_forked_up_to_a_turn_or_before_it(public: Gateway, bound: str) -> None:
    public.bus.upstream = upstream
    source, turn = new_id(), new_id()
    path = f"/sessions/{source}/fork/"
    first, again = [
        await public.client.post(path, json={bound: turn}, headers={"Idempotency-Key": "k"}) for _ in range(2)
    ]
    assert first.json() == again.json()
    assert [getattr(sent.command, bound) for sent in public.bus.sent] == [turn]
    unknown = await public.client.post(path, json={bound: "x"})
    assert (unknown.status_code, error_of(unknown)["type"]) == (404, "not_found_error")
    both = await public.client.post(path, json={"up_to_turn_id": turn, "before_turn_id": turn})
    assert (both.status_code, error_of(both)["type"]) == (422, "validation_error")
    assert (await public.client.post(path, json={"up_to": turn})).status_code == 422


async def test_cancelling_says_what_became_of_the_turn(public: Gateway) -> None:
    public.bus.upstream = upstream
    session_id, turn_id = new_id(), new_id()
    response = await public.client.post(f"/runtime/{session_id}/turns/{turn_id}/cancel/")
    assert public.bus.sent[0].subject == turn_id
    assert response.json() == {
        "success": True,
        "turn_id": turn_id,
        "session_id": session_id,
        "status": "cancelled",
    }


async def test_a_rejection_becomes_its_status(public: Gateway) -> None:
    cases: list[Any] = [
        (ErrorKind.NOT_FOUND, 404),
        (ErrorKind.CONFLICT, 409),
        (ErrorKind.VALIDATION, 422),
        (ErrorKind.RATE_LIMIT, 429),
        (ErrorKind.UNAVAILABLE, 503),
    ]
    for kind, status in cases:
        public.bus.upstream = lambda _, kind=kind: [rejected(kind, "the upstream says no")]
        response = await public.client.delete(f"/sessions/{new_id()}/")
        assert (response.status_code, error_of(response)["type"]) == (status, kind)
        assert error_of(response)["message"] == "the upstream says no"
        assert public.bus.waiters == {}


async def test_without_a_bus_writes_are_unavailable(public: Gateway) -> None:
    public.bus.down = True
    response = await public.client.delete(f"/sessions/{new_id()}/")
    assert (response.status_code, error_of(response)["type"]) == (503, "service_unavailable")
    assert int(response.headers["retry-after"]) > 0


@pytest.mark.virtual_time
async def test_a_write_that_nobody_takes_up_times_out(public: Gateway) -> None:
    response = await public.client.delete(f"/sessions/{new_id()}/")
    assert (response.status_code, error_of(response)["type"]) == (504, "timeout_error")
    assert "may still be executed" in error_of(response)["message"]
    assert public.bus.waiters == {}


async def test_a_repeat_gets_the_one_outcome_under_the_first_ones_label(public: Gateway) -> None:
    public.bus.upstream = upstream
    headers = {"Idempotency-Key": "once", "X-Correlation-ID": "first"}
    first = await public.client.post("/agent/", json=CONFIGURATION, headers=headers)
    again = await public.client.post(
        "/agent/", json=dict(reversed(CONFIGURATION.items())), headers={**headers, "X-Correlation-ID": "second"}
    )
    assert again.json() == first.json()
    assert again.headers["x-correlation-id"] == "first"
    assert len(public.bus.sent) == 1


@pytest.mark.virtual_time
async def test_a_repeat_is_sent_again_when_the_owner_never_had_it(public: Gateway) -> None:
    headers = {"Idempotency-Key": "once"}
    lost = await public.client.post("/agent/", json=CONFIGURATION, headers=headers)
    public.bus.upstream = upstream
    again = await public.client.post("/agent/", json=CONFIGURATION, headers=headers)
    assert (lost.status_code, again.status_code) == (504, 201)
    assert {sent.command_id for sent in public.bus.sent} == {again.json()["id"]}


async def test_a_repeat_of_a_finished_write_needs_neither_registry_nor_bus(public: Gateway) -> None:
    public.bus.upstream = upstream
    public.upstreams.answers["POST", "registry", "/internal/agents/normalize"] = (200, NORMALIZED)
    headers = {"Idempotency-Key": "once"}
    first = await public.client.post("/sessions/", json=CONFIGURATION, headers=headers)
    public.bus.down = public.upstreams.down = True
    again = await public.client.post("/sessions/", json=CONFIGURATION, headers=headers)
    assert again.json() == first.json()


@pytest.mark.parametrize(
    ("kind", "status"), [(ErrorKind.RATE_LIMIT, 429), (ErrorKind.UNAVAILABLE, 503), (ErrorKind.TIMEOUT, 504)]
)
async def test_a_repeat_of_what_was_refused_for_now_is_tried_anew(
    public: Gateway, kind: ErrorKind, status: int
) -> None:
    public.bus.upstream = lambda _: [rejected(kind, "not now")]
    headers = {"Idempotency-Key": "once", "X-Correlation-ID": "first"}
    refused = await public.client.post("/agent/", json=CONFIGURATION, headers=headers)
    public.bus.upstream = upstream
    again = await public.client.post("/agent/", json=CONFIGURATION, headers=headers)
    later = await public.client.post("/agent/", json=CONFIGURATION, headers=headers)
    assert (refused.status_code, again.status_code) == (status, 201)
    assert again.json() == later.json()
    assert again.headers["x-correlation-id"] == "first"
    assert len({sent.command_id for sent in public.bus.sent}) == len(public.bus.sent) == 2


async def test_a_repeat_of_what_was_refused_for_good_is_not_tried_again(public: Gateway) -> None:
    public.bus.upstream = lambda _: [rejected(ErrorKind.CONFLICT, "never")]
    headers = {"Idempotency-Key": "once"}
    answers = [await public.client.post("/agent/", json=CONFIGURATION, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [409, 409]
    assert len(public.bus.sent) == 1


async def test_keys_of_different_callers_and_paths_are_different(public: Gateway) -> None:
    public.bus.upstream = upstream
    secret, _ = public.keys.issue(user_id="user-2")
    headers = {"Idempotency-Key": "once"}
    await public.client.delete(f"/agent/{new_id()}/", headers=headers)
    await public.client.delete(f"/agent/{new_id()}/", headers=headers)
    await public.client.post("/agent/", json=CONFIGURATION, headers=headers)
    await public.client.post("/agent/", json=CONFIGURATION, headers={**headers, "x-api-key": secret})
    assert len({sent.command_id for sent in public.bus.sent}) == 4
