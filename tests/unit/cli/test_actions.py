"""`aes actions`: listing and answering what turns are waiting for."""

import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from aes_client.models import Turn
from typer.testing import CliRunner

from cli import actions as command
from tests.unit.cli.service import document, serve


def action(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "action_id": f"action-{number}",
        "kind": "approval",
        "session_id": "session-1",
        "turn_id": "turn-1",
        "tool_call": {"id": "c1", "name": "shop.refund", "arguments": {"order": number}},
        "created_at": "2030-01-01T00:00:00.000000Z",
        "expires_at": "2030-01-02T00:00:00.000000Z",
        **fields,
    }


class Service:
    """Has 250 open actions, ``open``, of one ``kind``; takes any answer, or refuses them all with ``refusal``."""

    def __init__(self) -> None:
        self.asked: list[httpx.Request] = []
        self.refusal: httpx.Response | None = None
        self.left: list[dict[str, Any]] = []
        self.open, self.kind = 250, "approval"

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if request.method == "GET":
            offset, limit = int(request.url.params.get("offset", 0)), int(request.url.params["limit"])
            page = [action(number, kind=self.kind) for number in range(offset, min(offset + limit, self.open))]
            has_more = offset + limit < self.open
            return httpx.Response(200, json={"actions": page, "total": self.open, "has_more": has_more})
        turn = document(Turn, turn_id="turn-1", status="queued", required_actions=self.left)
        return self.refusal or httpx.Response(200, json=turn)

    @property
    def answer(self) -> Any:
        return json.loads(self.asked[-1].content)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    service = Service()
    serve(monkeypatch, service)
    return service


def run(*arguments: str) -> SimpleNamespace:
    result = CliRunner().invoke(command.app, list(arguments))
    return SimpleNamespace(code=result.exit_code, out=result.stdout, told=result.stderr)


def test_all_open_actions_are_listed(service: Service) -> None:
    found = json.loads(run("list", "--kind", "approval", "--session", "session-1", "--json").out)
    assert [each["action_id"] for each in found["actions"]] == [f"action-{number}" for number in range(250)]
    assert service.asked[0].url.params["kind"] == "approval"
    assert service.asked[1].url.params["session_id"] == "session-1"
    shown = run("list").out
    assert "action-249" in shown
    assert "shop.refund" in shown


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        (["approve"], {"decision": "approve"}),
        (["deny"], {"decision": "deny"}),
        (["deny", "--reason", "too much"], {"decision": "deny", "reason": "too much"}),
        (["answer", "--output", "12A"], {"output": "12A"}),
        (["answer", "--output-json", '{"seat": ["12A"]}'], {"output": {"seat": ["12A"]}}),
        (["answer", "--output-json", "null"], {"output": None}),
        (["answer", "--error", "gone"], {"error": "gone"}),
    ],
)
def test_an_action_is_answered_by_its_id_alone(service: Service, arguments: list[str], body: dict[str, Any]) -> None:
    service.kind = "approval" if "decision" in body else "tool_result"
    result = run(arguments[0], "action-220", *arguments[1:])
    assert result.code == 0, result.told
    assert service.asked[-1].url.path == "/api/v1/runtime/session-1/turns/turn-1/actions/action-220/"
    assert service.answer == body
    assert "continues" in result.told


def test_it_says_when_the_turn_needs_more(service: Service) -> None:
    service.left = [action(3)]
    assert "still has open actions: 1" in run("approve", "action-2").told
    assert json.loads(run("approve", "action-2", "--json").out)["required_actions"] == [action(3)]


@pytest.mark.parametrize(
    "arguments",
    [["--output", "x", "--error", "y"], [], ["--output-json", "{"], ["--output", "x", "--output-json", "1"]],
)
def test_what_is_no_result_is_refused(service: Service, arguments: list[str]) -> None:
    refused = run("answer", "action-1", *arguments)
    assert refused.code == 1
    assert service.asked == []
    assert arguments or "What to do: For example: ./aes actions answer" in refused.told


@pytest.mark.parametrize(
    ("kind", "arguments", "remedy"),
    [
        ("tool_result", ["approve"], "./aes actions answer action-1 --output"),
        ("tool_result", ["deny"], "./aes actions answer action-1 --output"),
        ("approval", ["answer", "--output", "12A"], "./aes actions approve action-1"),
    ],
)
def test_an_answer_of_the_other_kind_is_refused_with_the_right_command(
    service: Service, kind: str, arguments: list[str], remedy: str
) -> None:
    service.kind = kind
    refused = run(arguments[0], "action-1", *arguments[1:])
    assert (refused.code, remedy in refused.told) == (1, True)
    assert {request.method for request in service.asked} == {"GET"}


def test_without_open_actions_a_word_says_so(service: Service) -> None:
    service.open = 0
    shown = run("list")
    assert (shown.code, shown.out, shown.told.strip()) == (0, "", "No actions found.")
    assert json.loads(run("list", "--json").out) == {"actions": []}


def test_what_cannot_be_answered_is_said(service: Service) -> None:
    unknown = run("approve", "action-999")
    assert (unknown.code, "aes actions list" in unknown.told) == (1, True)
    error = {"error": {"type": "conflict_error", "message": "the action has expired"}}
    service.refusal = httpx.Response(409, json=error)
    late = run("approve", "action-1")
    assert (late.code, "the action has expired" in late.told) == (1, True)
