"""`aes events tail`: following, reconnecting, rendering."""

from collections.abc import Callable
from typing import Any

import httpx
import orjson
import pytest

from cli.events.command import line_of
from cli.events.following import TimelineFollower
from deploy.local.errors import StackError


def event(position: int, **fields: Any) -> dict[str, Any]:
    return {
        "position": position,
        "type": "turn.started",
        "time": "2030-01-01T00:00:00.000000Z",
        "subject": "turn-1",
        "data": {},
        **fields,
    }


def block(position: int) -> bytes:
    return b"id: %d\nevent: turn.started\ndata: %s\n\n" % (position, orjson.dumps(event(position)))


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


def follower(service: Callable[[httpx.Request], httpx.Response], **how: Any) -> TimelineFollower:
    client = httpx.Client(transport=httpx.MockTransport(service), base_url="http://service/api/v1")
    return TimelineFollower(client, {"type": ["turn.*", "agent.created"]}, sleep=lambda _: None, **how)


def positions(following: TimelineFollower, count: int) -> list[int]:
    events = following.events()
    return [next(events)["position"] for _ in range(count)]


def test_it_goes_on_after_the_last_event() -> None:
    service = Service(
        httpx.Response(200, content=block(4) + block(7) + b": keep-alive\nid: 9\n\n" + b"id: 10\nevent: tu"),
        httpx.ConnectError("gone"),
        httpx.Response(503, json={"error": {"type": "service_unavailable", "message": "starting"}}),
        httpx.Response(200, content=block(10) + b'event: error\ndata: {"error": {"type": "service_unavailable",'
                       b' "message": "restarted"}}\n\n'),
        httpx.Response(200, content=block(11)),
    )  # fmt: skip
    lost: list[str] = []
    assert positions(follower(service, after=3, on_lost=lost.append), 4) == [4, 7, 10, 11]
    assert [request.headers["last-event-id"] for request in service.asked] == ["3", "9", "9", "9", "10"]
    assert {request.url.params.get_list("type")[1] for request in service.asked} == {"agent.created"}
    assert lost == ["The service ended the stream.", "restarted"]


def test_without_a_position_it_begins_with_now() -> None:
    service = Service(httpx.Response(200, content=block(4)))
    assert positions(follower(service), 1) == [4]
    assert "last-event-id" not in service.asked[0].headers


@pytest.mark.parametrize(
    "answer",
    [
        httpx.ConnectError("refused"),
        httpx.Response(403, json={"error": {"type": "permission_error", "message": "no scope"}}),
        httpx.Response(200, content=b'event: error\ndata: {"error": {"type": "permission_error", "message": ""}}\n\n'),
    ],
)
def test_what_no_repeat_mends_ends_it(answer: httpx.Response | Exception) -> None:
    with pytest.raises(StackError):
        next(follower(Service(answer)).events())


def test_a_service_that_stays_away_ends_it() -> None:
    service = Service(httpx.Response(200, content=block(1)), httpx.ConnectError("gone"))
    events = follower(service).events()
    next(events)
    with pytest.raises(StackError, match="no answer"):
        next(events)
    assert len(service.asked) > 5


def test_an_event_is_one_line() -> None:
    reply = {"response": {"content": "Hello\nthere."}}
    shown = line_of(event(12, type="turn.completed", data=reply)).plain
    assert "\n" not in shown
    assert "12" in shown
    assert "turn.completed" in shown
    assert shown.endswith("turn-1  Hello there.")
    failed = line_of(event(13, type="turn.failed", data={"error": {"type": "model_error", "message": "away"}})).plain
    assert failed.endswith("model_error: away")
    action = {"action_id": "a1", "kind": "approval", "tool_call": {"name": "shop.refund", "arguments": {"order": 7}}}
    required = line_of(event(14, type="turn.action_required", data={"action": action})).plain
    assert required.endswith('approval: {"name": "shop.refund", "arguments": {"order": 7}}')
    resolved = line_of(event(15, type="turn.action_resolved", data={"decision": "deny", "kind": "approval"})).plain
    assert resolved.endswith("decision=deny")
