"""Open actions of turns: answering and listing them."""

from typing import Any

import orjson
import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.resources.actions import ResolveAction, ResolveActionAccepted
from tests.support.gateway import Gateway, error_of
from tests.support.public_agents import SHOP, connect
from tests.support.turn_events import turn_of

SESSION, TURN, ACTION = new_id(), new_id(), new_id()
PATH = f"/runtime/{SESSION}/turns/{TURN}/actions/{ACTION}/"
PAGE = {"actions": [], "total": 0, "has_more": False}


def accepted_answer(turn_id: str = TURN) -> ResolveActionAccepted:
    turn = turn_of(turn_id=turn_id, session_id=SESSION, status="queued")
    return ResolveActionAccepted(session_id=SESSION, turn_id=turn_id, turn=turn)


@pytest.fixture(autouse=True)
def accepting(public: Gateway) -> None:
    public.bus.upstream = lambda _: [accepted_answer()]


@pytest.mark.parametrize(
    "body",
    [
        {"decision": "approve"},
        {"decision": "deny"},
        {"decision": "deny", "reason": "too much"},
        {"output": "12A"},
        {"output": {"seat": ["12A", 3]}},
        {"output": None},
        {"output": False},
        {"error": "out of paper"},
    ],
)
async def test_an_answer_is_a_command_and_the_turn_its_result(public: Gateway, body: dict[str, Any]) -> None:
    response = await public.client.post(PATH, json=body)
    assert response.status_code == 200
    assert (response.json()["turn_id"], response.json()["status"]) == (TURN, "queued")
    [sent] = public.bus.sent
    where = {"session_id": SESSION, "turn_id": TURN, "action_id": ACTION}
    assert sent.command == ResolveAction.model_validate({**where, **body})


async def test_what_is_no_single_answer_is_refused(public: Gateway) -> None:
    cases: list[Any] = [
        {},
        {"decision": "perhaps"},
        {"decision": None},
        {"decision": "approve", "output": "12A"},
        {"output": "12A", "error": "none"},
        {"decision": "approve", "reason": "why not"},
        {"output": "12A", "reason": "why not"},
        {"error": ""},
        {"error": {"code": 1}},
        {"decision": "approve", "comment": "x"},
    ]
    for body in cases:
        response = await public.client.post(PATH, json=body)
        assert (response.status_code, error_of(response)["type"]) == (422, "validation_error")
        assert public.bus.sent == []


@pytest.mark.parametrize(
    ("scope", "body", "status"),
    [
        ("runtime:execute", {"output": 1}, 200),
        ("runtime:execute", {"error": "x"}, 200),
        ("runtime:execute", {"decision": "approve"}, 403),
        ("runtime:approve", {"decision": "deny"}, 200),
        ("runtime:approve", {"output": 1}, 403),
    ],
)
async def test_an_answer_takes_the_scope_of_its_kind(
    public: Gateway, scope: str, body: dict[str, Any], status: int
) -> None:
    secret, _ = public.keys.issue(scopes=frozenset({scope}))
    assert (await public.client.post(PATH, json=body, headers={"x-api-key": secret})).status_code == status
    assert len(public.bus.sent) == (status == 200)


async def test_a_visitor_answers_its_tools_and_approves_nothing(public: Gateway) -> None:
    connection = await connect(public)
    public.client.headers.pop("x-api-key")
    path, headers = f"{PATH}?connection_key={connection.key}", {"Origin": SHOP}
    assert (await public.client.post(path, json={"output": 1}, headers=headers)).status_code == 200
    assert public.bus.sent[0].identity.user_id == connection.id
    for refused in (
        await public.client.post(path, json={"decision": "approve"}, headers=headers),
        await public.client.get(f"/actions/?connection_key={connection.key}", headers=headers),
    ):
        assert (refused.status_code, error_of(refused)["type"]) == (403, "permission_error")
    assert len(public.bus.sent) == 1


async def test_open_actions_are_listed_as_the_runtime_has_them(public: Gateway) -> None:
    public.upstreams.answers["GET", "runtime", "/internal/actions"] = (200, PAGE)
    response = await public.client.get("/actions/", params={"kind": "approval", "session_id": SESSION, "limit": 5})
    assert (response.status_code, response.content) == (200, orjson.dumps(PAGE) + b"\n")
    asked = {"limit": 5, "offset": 0, "kind": "approval", "session_id": SESSION}
    assert public.upstreams.asked[-1] == ("GET", "runtime", "/internal/actions", asked)
    assert (await public.client.get("/actions/", params={"kinds": "approval"})).status_code == 422
    await public.client.get("/actions/?session_id=a%00b")
    assert public.upstreams.asked[-1][3]["session_id"] == "a\ufffdb"
