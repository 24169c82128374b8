"""`aes events tail`: following, reconnecting, rendering."""

import json
from types import SimpleNamespace
from typing import Any

import httpx
import orjson
import pytest
from aes_client.models import TimelineEventView
from typer.testing import CliRunner

from cli.app import app
from cli.events import line_of
from tests.unit.cli.service import document, serve


def event(position: int, **fields: Any) -> dict[str, Any]:
    return document(TimelineEventView, position=position, type="turn.started", subject="turn-1", **fields)


def block(position: int) -> bytes:
    return b"id: %d\nevent: turn.started\ndata: %s\n\n" % (position, orjson.dumps(event(position)))


def stream(*pieces: bytes) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(pieces))


def broken(kind: str, message: str) -> bytes:
    return b"event: error\ndata: %s\n\n" % orjson.dumps({"error": {"type": kind, "message": message}})


def refusal(status: int, kind: str, message: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"type": kind, "message": message}})


STOP = refusal(403, "permission_error", "enough")


class Service:
    """Answers one request after the other; the last answer is repeated."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def tail(monkeypatch: pytest.MonkeyPatch, service: Service, *arguments: str) -> SimpleNamespace:
    serve(monkeypatch, service)
    result = CliRunner().invoke(app, ["events", "tail", "--json", *arguments])
    positions = [json.loads(line).get("position") for line in result.stdout.splitlines()]
    return SimpleNamespace(code=result.exit_code, positions=[each for each in positions if each], told=result.stderr)


def test_it_goes_on_after_the_last_event(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(
        stream(block(4), block(7), b": keep-alive\nid: 9\n\n", b"id: 10\nevent: tu"),
        httpx.ConnectError("gone"),
        refusal(503, "service_unavailable", "starting"),
        stream(block(10), broken("service_unavailable", "restarted")),
        stream(block(11)),
        STOP,
    )
    result = tail(monkeypatch, service, "--after", "3", "--type", "turn.*", "--type", "agent.created")
    assert result.positions == [4, 7, 10, 11]
    assert [request.headers.get("last-event-id") for request in service.asked] == [None, "9", "9", "9", "10", "11"]
    assert {(each.url.params["after"], each.url.params["type"]) for each in service.asked} == {
        ("3", "turn.*,agent.created")
    }
    for lost in ("the stream was interrupted", "gone", "starting", "restarted"):
        assert f"{lost}. Reconnecting" in result.told
    assert result.code == 1
    assert "enough" in result.told


def test_without_a_position_it_begins_with_now(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(stream(block(4)), STOP)
    assert tail(monkeypatch, service).positions == [4]
    assert "after" not in service.asked[0].url.params


@pytest.mark.parametrize(
    "answer",
    [
        httpx.ConnectError("refused"),
        STOP,
        stream(broken("permission_error", "no")),
        httpx.Response(200, content=b"<html>"),
    ],
)
def test_what_no_repeat_mends_ends_it(monkeypatch: pytest.MonkeyPatch, answer: httpx.Response | Exception) -> None:
    service = Service(answer)
    result = tail(monkeypatch, service)
    assert (result.code, len(service.asked)) == (1, 1)
    assert "Error:" in result.told


def test_a_service_that_stays_away_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(stream(block(1)), httpx.ConnectError("gone"))
    result = tail(monkeypatch, service)
    assert (result.code, result.positions) == (1, [1])
    assert "http://service" in result.told
    assert len(service.asked) > 15


def test_its_way_to_end_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(httpx.SyncByteStream):
        def __iter__(self) -> Any:
            yield block(1)
            raise KeyboardInterrupt

    answer = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Interrupted())
    result = tail(monkeypatch, Service(answer))
    assert (result.code, result.positions) == (0, [1])


def shown(position: int, **fields: Any) -> TimelineEventView:
    return TimelineEventView.model_validate({**event(position), **fields})


def test_an_event_is_one_line() -> None:
    reply = {"response": {"content": "Hello\nthere."}}
    line = line_of(shown(12, type="turn.completed", data=reply)).plain
    assert "\n" not in line
    assert "12" in line
    assert "turn.completed" in line
    assert line.endswith("turn-1  Hello there.")
    failed = line_of(shown(13, type="turn.failed", data={"error": {"type": "model_error", "message": "away"}})).plain
    assert failed.endswith("model_error: away")
    action = {"action_id": "a1", "kind": "approval", "tool_call": {"name": "shop.refund", "arguments": {"order": 7}}}
    required = line_of(shown(14, type="turn.action_required", data={"action": action})).plain
    assert required.endswith('approval: {"name": "shop.refund", "arguments": {"order": 7}}')
    resolved = line_of(shown(15, type="turn.action_resolved", data={"decision": "deny", "kind": "approval"})).plain
    assert resolved.endswith("decision=deny")
