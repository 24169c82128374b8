"""Turns: executed, followed through broken connections, waited for, and answered by functions of the program."""

import asyncio
from typing import Any

import aes_client
import httpx
import pytest
from aes_client import AsyncClient, tool
from aes_client.models import OutputTextDelta, RequiredAction, Session
from aes_client.resources.sessions import SessionRecord

from tests.support.client_service import FakeService, asynchronous, blocking, error, event, events

EXECUTE = "/runtime/s/execute/"
TURN = "/runtime/s/turns/t/"
LOCATION = f"/api/v1{TURN}"
REPLY = {
    "success": True,
    "message_id": "m",
    "response": {"content": "Hello."},
    "correlation_id": "c",
    "session_id": "s",
    "turn_id": "t",
    "user_message_id": "u",
    "usage": {"input_tokens": 1, "output_tokens": 2, "model_calls": 1},
    "config_hash": "h",
}
OF_TURN = {"session_id": "s", "turn_id": "t"}


def delta(number: int, text: str, offset: int) -> bytes:
    data = {**OF_TURN, "attempt": 1, "step": 1, "offset": offset, "text": text}
    return event(f"1.1.1.{number}", "turn.output_text.delta", **data)


STARTED = event("1.1.1.0", "turn.started", **OF_TURN, attempt=1, user_message_id="u")
HEL, LO = delta(3, "Hel", 0), delta(6, "lo.", 3)
COMPLETED = event("2.1.1.0", "turn.completed", **REPLY)


def action(
    action_id: str = "a", kind: str = "tool_result", name: str = "free_seats", **arguments: Any
) -> dict[str, Any]:
    call = {"id": f"call-{action_id}", "name": name, "arguments": arguments or {"crossing": 4711}}
    return {"action_id": action_id, "kind": kind, "tool_call": call, "expires_at": "2026-03-01T09:30:00.000000Z"}


def turn(status: str, **fields: Any) -> dict[str, Any]:
    known = {"attempt": 1, "position": 1, "correlation_id": "c", "user_message_id": "u"}
    return {**OF_TURN, **known, "status": status, "created_at": "2026-03-01T09:30:00.000000Z", **fields}


def accepted(status: str, *actions: dict[str, Any]) -> httpx.Response:
    body = {**OF_TURN, "status": status, "correlation_id": "c", "required_actions": list(actions)}
    return httpx.Response(202, json=body)


class Seats:
    """A tool that notes its calls."""

    def __init__(self) -> None:
        self.asked: list[int] = []

        @tool
        def free_seats(crossing: int) -> dict[str, int]:
            """The number of seats that are still free."""
            self.asked.append(crossing)
            return {"free": 118}

        self.tool = free_seats


def test_a_reply(client: Any, service: FakeService) -> None:
    service.on("POST", EXECUTE, REPLY)
    reply = client.session("s").execute("hello", options={"temperature": 0.1}, correlation_id="mine")
    assert reply.response.content == "Hello."
    [request] = service.requests
    assert request.headers["prefer"] == "wait=50"
    assert request.content == b'{"content":"hello","options":{"temperature":0.1},"correlation_id":"mine"}'


def test_a_turn_that_takes_long_is_asked_for_again_with_the_same_key(client: Any, service: FakeService) -> None:
    service.on("POST", EXECUTE, accepted("running"), httpx.ReadError("reset"), accepted("queued"), REPLY)
    assert client.session("s").execute("hello", idempotency_key="mine").turn_id == "t"
    assert [each.headers["idempotency-key"] for each in service.requests] == ["mine"] * 4


def test_a_time_limit_names_the_turn_that_goes_on(client: Any, service: FakeService) -> None:
    service.on("POST", EXECUTE, accepted("running"))
    with pytest.raises(aes_client.TimeLimitReached) as raised:
        client.session("s").execute("hello", timeout=0)
    assert (raised.value.session_id, raised.value.turn_id) == ("s", "t")


def test_tools_and_approvals_answer_what_a_turn_waits_for(client: Any, service: FakeService) -> None:
    seats, asked = Seats(), []
    waits = accepted("waiting", action(), action("b", "approval", "calculator", expression="1+1"))
    service.on("POST", EXECUTE, waits, REPLY)
    service.on("POST", f"{TURN}actions/a/", error(503, "service_unavailable"), turn("waiting"))
    service.on("POST", f"{TURN}actions/b/", turn("running"))

    def approve(wanted: RequiredAction) -> bool:
        asked.append(wanted.tool_call.name)
        return True

    reply = client.session("s", tools=[seats.tool]).execute("hello", approve=approve)

    assert reply.response.content == "Hello."
    assert (seats.asked, asked) == ([4711], ["calculator"])
    results = service.calls("POST", f"{TURN}actions/a/")
    assert {each.content for each in results} == {b'{"output":{"free":118}}'}
    assert len(results) == 2
    assert service.calls("POST", f"{TURN}actions/b/")[0].content == b'{"decision":"approve"}'
    assert b"client_tools" not in service.requests[0].content


def test_tools_of_one_message_are_described_to_the_agent(client: Any, service: FakeService) -> None:
    service.on("POST", EXECUTE, REPLY)
    client.session("s").execute("hello", tools=[Seats().tool], options={"temperature": 0})
    assert b'"client_tools":[{"name":"free_seats"' in service.requests[0].content
    assert b'"temperature":0' in service.requests[0].content


def test_a_denial_and_an_action_that_somebody_else_answered(client: Any, service: FakeService) -> None:
    seats = Seats()
    service.on("POST", EXECUTE, accepted("waiting", action(), action("b", "approval")), REPLY)
    service.on("POST", f"{TURN}actions/a/", error(409, "conflict_error"))
    service.on("POST", f"{TURN}actions/b/", turn("running"))
    client.session("s", tools=[seats.tool]).execute("hello", approve=lambda _: False)
    assert service.calls("POST", f"{TURN}actions/b/")[0].content == b'{"decision":"deny"}'


def test_a_tool_runs_once_for_an_action_that_is_shown_again(client: Any, service: FakeService) -> None:
    seats = Seats()
    service.on("POST", EXECUTE, accepted("waiting", action()), accepted("waiting", action()), REPLY)
    service.on("POST", f"{TURN}actions/a/", turn("running"))
    client.session("s", tools=[seats.tool]).execute("hello")
    assert seats.asked == [4711]


def test_what_nobody_answers_is_raised(client: Any, service: FakeService) -> None:
    service.on("POST", EXECUTE, accepted("waiting", action(name="unknown"), action("b", "approval")))
    with pytest.raises(aes_client.ActionRequired, match="tool_result of unknown, approval of free_seats") as raised:
        client.session("s", tools=[Seats().tool]).execute("hello")
    assert [each.action_id for each in raised.value.actions] == ["a", "b"]


def test_a_message_behind_a_waiting_turn_raises_what_that_one_needs(client: Any, service: FakeService) -> None:
    blocked_by = {"turn_id": "earlier", "required_actions": [action("b", "approval")]}
    body = {**OF_TURN, "status": "queued", "correlation_id": "c", "required_actions": [], "blocked_by": blocked_by}
    service.on("POST", EXECUTE, httpx.Response(202, json=body))
    with pytest.raises(aes_client.ActionRequired, match="Turn earlier is waiting for: approval of") as raised:
        client.session("s", tools=[Seats().tool]).execute("hello")
    assert (raised.value.turn_id, [each.action_id for each in raised.value.actions]) == ("earlier", ["b"])


def test_a_session_that_was_read_executes(client: Any, service: FakeService) -> None:
    stored = {
        "session_id": "s", "config_hash": "h", "created_at": "2026-03-01T09:30:00.000000Z", "status": "active",
        "agent_config": {},
    }  # fmt: skip
    service.on("GET", "/sessions/s/", stored)
    service.on("GET", "/sessions/", {"sessions": [stored], "total": 1, "has_more": False})
    service.on("POST", EXECUTE, REPLY, REPLY)
    read, [listed] = client.sessions.get("s"), client.sessions.list()
    for session in (read, listed):
        assert (session.session_id, session.status, session.agent_id) == ("s", "active", None)
        assert session.execute("hello").turn_id == "t"


def test_a_session_that_was_read_has_every_field() -> None:
    declared = {name for each in SessionRecord.__mro__ for name in vars(each).get("__annotations__", {})}
    assert Session.model_fields.keys() - {"session_id"} <= declared


@pytest.mark.parametrize(
    ("arguments", "told"),
    [({"crossing": "many"}, b"Invalid arguments"), ({"crossing": 4711}, b"LookupError: no such crossing")],
)
def test_the_model_is_told_why_a_tool_failed(
    client: Any, service: FakeService, arguments: dict[str, Any], told: bytes
) -> None:
    def free_seats(crossing: int) -> int:
        raise LookupError("no such crossing")

    service.on("POST", EXECUTE, accepted("waiting", action(**arguments)), REPLY)
    service.on("POST", f"{TURN}actions/a/", turn("running"))
    client.session("s", tools=[free_seats]).execute("hello")
    [answer] = service.calls("POST", f"{TURN}actions/a/")
    assert answer.content.startswith(b'{"error":"')
    assert told in answer.content


def test_a_stream_goes_on_after_breaks(client: Any, service: FakeService) -> None:
    broken = httpx.ReadError("reset")
    # The first answer is lost before anything of it arrives, the second one in the middle of an event.
    service.on("POST", EXECUTE, broken, events(STARTED, HEL, LO[:20], broken, location=LOCATION))
    service.on(
        "GET",
        f"{TURN}events/",
        httpx.ConnectError("refused"),
        error(503, "service_unavailable", retry_after=0),
        events(b": keep-alive\n\n", LO, event("", "error", error={"type": "service_unavailable", "message": "ends"})),
        events(COMPLETED),
    )
    seen = list(client.session("s").stream("hello"))

    assert [each.id for each in seen] == ["1.1.1.0", "1.1.1.3", "1.1.1.6", "2.1.1.0"]
    assert "".join(each.text for each in seen) == "Hello."
    assert isinstance(seen[1].data, OutputTextDelta)
    assert seen[-1].reply().response.content == "Hello."
    posts, follows = service.calls("POST", EXECUTE), service.calls("GET", f"{TURN}events/")
    assert len({each.headers["idempotency-key"] for each in posts}) == 1
    assert [each.headers["last-event-id"] for each in follows] == ["1.1.1.3", "1.1.1.3", "1.1.1.3", "1.1.1.6"]
    assert {each.headers["accept"] for each in service.requests} == {"text/event-stream"}


def test_events_may_be_cut_anywhere(client: Any, service: FakeService) -> None:
    body = b": keep-alive\n\n" + STARTED + HEL + delta(6, "l\u2028\r\n", 3) + COMPLETED
    service.on("POST", EXECUTE, events(*(body[i : i + 1] for i in range(len(body))), location=LOCATION))
    seen = list(client.session("s").stream("hello"))
    assert "".join(each.text for each in seen) == "Hell\u2028\r\n"


def test_a_stream_that_cannot_be_taken_up_fails(client: Any, service: FakeService) -> None:
    service.on("POST", EXECUTE, events(STARTED, location=LOCATION))
    service.on("GET", f"{TURN}events/", httpx.ConnectError("refused"))
    series = client.session("s").stream("hello")
    assert next(series).type == "turn.started"
    with pytest.raises(aes_client.ConnectionFailed, match="refused"):
        next(series)


@pytest.mark.parametrize("refusal", [error(404, "not_found_error"), error(401, "authentication_error")])
def test_a_stream_that_is_refused_raises_the_refusal(
    client: Any, service: FakeService, refusal: httpx.Response
) -> None:
    service.on("POST", EXECUTE, events(STARTED, location=LOCATION))
    service.on("GET", f"{TURN}events/", refusal)
    with pytest.raises(aes_client.ApiError) as raised:
        list(client.session("s").stream("hello"))
    assert raised.value.status == refusal.status_code


def test_a_stream_may_be_left_and_taken_up_by_its_id(client: Any, service: FakeService) -> None:
    service.on("GET", f"{TURN}events/", events(STARTED, HEL, LO, COMPLETED))
    series = client.session("s").turn("t").stream(after="0.1.1.0")
    assert next(series).type == "turn.started"
    series.close()
    assert service.requests[0].headers["last-event-id"] == "0.1.1.0"


def test_the_error_of_a_turn_that_failed_comes_with_its_reply(client: Any, service: FakeService) -> None:
    failed = event("2.1.1.0", "turn.failed", **OF_TURN, error={"type": "model_error", "message": "no model"})
    cancelled = event("2.1.1.0", "turn.cancelled", **OF_TURN, reason="asked to")
    for last, kind in ((failed, aes_client.ModelError), (cancelled, aes_client.ConflictError)):
        service = FakeService()
        service.on("POST", EXECUTE, events(STARTED, last, location=LOCATION))
        started, end = blocking(service).session("s").stream("hello")
        with pytest.raises(kind):
            end.reply()
        with pytest.raises(ValueError, match="isn't the last event"):
            started.reply()


def test_an_event_of_a_newer_service_is_shown_as_it_is(client: Any, service: FakeService) -> None:
    unknown = event("1.1.1.1", "turn.dreamt", **OF_TURN, of="sheep")
    service.on("POST", EXECUTE, events(unknown, COMPLETED, location=LOCATION))
    assert next(client.session("s").stream("hello")).data["of"] == "sheep"


def test_tools_answer_on_a_stream_unless_that_was_done(client: Any, service: FakeService) -> None:
    seats = Seats()
    required = [
        event(f"{n}.1.1.0", "turn.action_required", **OF_TURN, step=1, action=action(a))
        for n, a in ((1, "a"), (2, "b"))
    ]
    service.on("GET", f"{TURN}events/", events(*required, COMPLETED))
    # The first one was answered before this reader came.
    service.on("GET", TURN, turn("waiting", required_actions=[action("b")]))
    service.on("POST", f"{TURN}actions/b/", turn("running"))
    seen = list(client.session("s").turn("t").stream(tools=[seats.tool]))
    assert [each.type for each in seen] == ["turn.action_required", "turn.action_required", "turn.completed"]
    assert seats.asked == [4711]
    assert service.calls("POST", f"{TURN}actions/a/") == []


def test_waiting_for_a_turn(client: Any, service: FakeService) -> None:
    seats = Seats()
    required = event("1.1.1.0", "turn.action_required", **OF_TURN, step=1, action=action())
    service.on("POST", EXECUTE, accepted("queued"))
    service.on(
        "GET",
        TURN,
        turn("running"),
        turn("waiting", required_actions=[action()]),
        turn("completed", reply=REPLY),
    )
    service.on("GET", f"{TURN}events/", events(STARTED, required), events(COMPLETED))
    service.on("POST", f"{TURN}actions/a/", turn("running"))
    begun = client.session("s").start("hello")
    assert begun.wait(tools=[seats.tool]).status == "completed"
    assert service.requests[0].headers["prefer"] == "respond-async"
    assert service.calls("GET", f"{TURN}events/")[1].headers["last-event-id"] == "1.1.1.0"
    assert begun.reply().response.content == "Hello."


def test_a_turn_that_needs_somebody_else_is_given_back(client: Any, service: FakeService) -> None:
    service.on("GET", TURN, turn("waiting", required_actions=[action()]))
    service.on("POST", f"{TURN}actions/a/", turn("running"))
    handle = client.session("s").turn("t")
    waiting = handle.wait()
    assert [each.action_id for each in waiting.required_actions] == ["a"]
    with pytest.raises(aes_client.ActionRequired):
        handle.reply()
    assert handle.resolve(waiting.required_actions[0], output=None).status == "running"
    assert service.calls("POST", f"{TURN}actions/a/")[0].content == b'{"output":null}'


def test_the_reply_of_a_turn_that_failed_is_its_error(client: Any, service: FakeService) -> None:
    service.on("GET", TURN, turn("failed", error={"type": "model_error", "message": "no model"}))
    with pytest.raises(aes_client.ModelError, match="no model"):
        client.session("s").turn("t").reply()


def test_a_session_of_a_configuration_has_its_tools(client: Any, service: FakeService) -> None:
    service.on("POST", "/sessions/", {"session_id": "s", "config_hash": "h"})
    service.on("POST", "/sessions/s/fork/", {"session_id": "f", "config_hash": "h"})
    made = client.sessions.create(config={"name": "n", "agent_type": "react_agent"}, tools=[Seats().tool])
    assert made.session_id == "s"
    assert b'"client_tools":[{"name":"free_seats"' in service.requests[0].content
    assert made.fork(up_to_turn_id="t").session_id == "f"
    assert made.fork(before_turn_id="t").session_id == "f"
    assert [each.content for each in service.requests[1:]] == [b'{"up_to_turn_id":"t"}', b'{"before_turn_id":"t"}']


async def test_coroutine_functions_are_tools_of_the_asynchronous_client() -> None:
    service = FakeService()
    service.on("POST", EXECUTE, accepted("waiting", action()), REPLY)
    service.on("POST", f"{TURN}actions/a/", turn("running"))

    @tool
    async def free_seats(crossing: int) -> int:
        await asyncio.sleep(0)
        return crossing + 1

    client: AsyncClient = asynchronous(service)
    await client.session("s", tools=[free_seats]).execute("hello")
    assert service.calls("POST", f"{TURN}actions/a/")[0].content == b'{"output":4712}'
    with pytest.raises(TypeError, match="Use AsyncClient"):
        blocking(service).session("s", tools=[free_seats]).execute("hello")


async def test_a_cancelled_reader_closes_its_connection() -> None:
    service = FakeService()
    service.on("POST", EXECUTE, events(STARTED, HEL, location=LOCATION))
    service.on("GET", f"{TURN}events/", httpx.ReadError("reset"))
    series = asynchronous(service).session("s").stream("hello")
    assert (await anext(series)).type == "turn.started"
    await series.aclose()  # type: ignore[attr-defined]
    with pytest.raises(StopAsyncIteration):
        await anext(series)


def test_after_the_last_event_there_is_nothing(client: Any, service: FakeService) -> None:
    service.on("GET", f"{TURN}events/", httpx.Response(204))
    assert list(client.session("s").turn("t").stream(after="2.1.1.0")) == []
