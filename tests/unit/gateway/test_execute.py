"""Executing a message: blocking, in the background and streaming."""

import asyncio
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

import httpx
import orjson
import pytest

from libs.contracts.errors import ErrorDetail, ErrorInfo, ErrorKind
from libs.contracts.identifiers import new_id
from libs.contracts.messages import CommandRejected, Event
from libs.contracts.resources.turns import (
    COMPANY_BACKLOG_FULL,
    ExecuteTurn,
    TurnOptions,
    TurnQueued,
)
from tests.support.gateway import Gateway, Sent, error_of, rejected
from tests.support.turn_events import cancelled, completed, delta, failed, started
from tests.support.waiting import elapse

pytestmark = pytest.mark.virtual_time
SESSION = new_id()
PATH = f"/runtime/{SESSION}/execute/"
STREAM = {"Accept": "text/event-stream"}


def events_in(text: str) -> list[tuple[str, Any]]:
    """Names and data of a stream, comments left out; every event has an id."""
    return [(name, data) for _, name, data in identified(text)]


def identified(text: str) -> list[tuple[str, str, Any]]:
    """Ids, names and data of a stream, comments left out."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["id"], lines["event"], orjson.loads(lines["data"])))
    return found


async def test_the_completed_turn_is_the_answer_byte_for_byte(public: Gateway) -> None:
    public.bus.upstream = lambda sent: [started(sent), completed(sent)]
    response = await public.client.post(PATH, json={"content": "Hi"})
    sent = public.bus.sent[0]
    assert (response.status_code, response.content) == (200, completed(sent).encode() + b"\n")
    assert isinstance(sent.command, ExecuteTurn)
    assert (sent.command.session_id, sent.command.content, sent.command.request.stream) == (SESSION, "Hi", False)
    assert public.idempotency.recorded == {}
    assert public.bus.waiters == {}


async def test_the_label_in_the_body_wins(public: Gateway) -> None:
    public.bus.upstream = lambda sent: [completed(sent)]
    body = {"content": "Hi", "correlation_id": "from.body"}
    response = await public.client.post(PATH, json=body, headers={"X-Correlation-ID": "from.header"})
    assert response.headers["x-correlation-id"] == response.json()["correlation_id"] == "from.body"
    assert public.bus.sent[0].correlation_id == "from.body"


@pytest.mark.parametrize(
    ("end", "status", "kind"),
    [
        (failed, 502, "model_error"),
        (cancelled, 409, "conflict_error"),
        (lambda _: rejected(ErrorKind.NOT_FOUND, "no such session"), 404, "not_found_error"),
        (lambda _: rejected(ErrorKind.RATE_LIMIT, "too many turns wait"), 429, "rate_limit_error"),
    ],
)
async def test_other_ends_become_errors(public: Gateway, end: Callable[[Sent], Event], status: int, kind: str) -> None:
    public.bus.upstream = lambda sent: [end(sent)]
    response = await public.client.post(PATH, json={"content": "Hi"})
    assert (response.status_code, error_of(response)["type"]) == (status, kind)


async def test_a_turn_that_nobody_accepts_times_out(public: Gateway) -> None:
    for headers in ({}, {"Prefer": "respond-async"}, STREAM):
        response = await public.client.post(PATH, json={"content": "Hi"}, headers=headers)
        assert (response.status_code, error_of(response)["type"]) == (504, "timeout_error")
        assert "may still be executed" in error_of(response)["message"]
    assert public.bus.waiters == {}


@pytest.mark.parametrize(
    ("first", "status"), [(lambda sent: queued(sent), "queued"), (started, "running"), (completed, "completed")]
)
async def test_in_the_background_the_answer_comes_once_the_turn_is_accepted(
    public: Gateway, first: Callable[[Sent], Event], status: str
) -> None:
    asked = asyncio.create_task(public.client.post(PATH, json={"content": "Hi"}, headers={"Prefer": "respond-async"}))
    sent = await public.until_sent()
    await elapse(1)
    assert not asked.done()
    public.bus.publish(sent, first(sent))
    response = await asked
    assert response.status_code == 202
    assert response.json() == {
        "success": True,
        "turn_id": sent.command_id,
        "session_id": SESSION,
        "status": status,
        "correlation_id": sent.correlation_id,
        "required_actions": [],
    }
    assert response.headers["location"] == f"/api/v1/runtime/{SESSION}/turns/{sent.command_id}/"


def queued(sent: Sent) -> TurnQueued:
    return TurnQueued(session_id=SESSION, turn_id=sent.command_id, position=1, user_message_id="m1")


async def test_a_rejected_turn_is_an_error_in_the_background_and_on_a_stream(public: Gateway) -> None:
    public.bus.upstream = lambda _: [rejected(ErrorKind.NOT_FOUND, "no such session")]
    for headers in ({"Prefer": "respond-async"}, STREAM):
        response = await public.client.post(PATH, json={"content": "Hi"}, headers=headers)
        assert (response.status_code, error_of(response)["type"]) == (404, "not_found_error")


async def test_turns_beyond_a_full_backlog_are_refused_here_for_a_moment(public: Gateway) -> None:
    full = ErrorDetail(loc=[], type=COMPANY_BACKLOG_FULL, message="the company has 1000 messages in work already")
    info = ErrorInfo(type=ErrorKind.RATE_LIMIT, message=full.message, details=[full], retry_after=2)
    public.bus.upstream = lambda _: [CommandRejected(error=info)]
    for headers in ({}, {"Prefer": "respond-async"}, STREAM):
        response = await public.client.post(PATH, json={"content": "Hi"}, headers=headers)
        assert (response.status_code, error_of(response)["message"]) == (429, full.message)
        assert response.headers["retry-after"] == "2"
        assert len(public.bus.sent) == 1
    public.clock.advance(1)
    public.bus.upstream = lambda sent: [started(sent), completed(sent)]
    response = await public.client.post(PATH, json={"content": "Hi"})
    assert response.status_code == 200


async def test_a_full_backlog_costs_new_turns_no_row_and_repeats_nothing(public: Gateway) -> None:
    async def execute(key: str) -> httpx.Response:
        return await public.client.post(PATH, json={"content": "Hi"}, headers={"Idempotency-Key": key})

    public.bus.upstream = lambda sent: [started(sent), completed(sent)]
    first = await execute("first")
    full = ErrorDetail(loc=[], type=COMPANY_BACKLOG_FULL, message="the company has 1000 messages in work already")
    info = ErrorInfo(type=ErrorKind.RATE_LIMIT, message=full.message, details=[full], retry_after=2)
    public.bus.upstream = lambda _: [CommandRejected(error=info)]
    assert (await execute("second")).status_code == 429
    rows = len(public.idempotency.recorded)
    assert [(await execute(f"further-{number}")).status_code for number in range(3)] == [429] * 3
    assert len(public.idempotency.recorded) == rows
    again = await execute("first")
    assert (again.status_code, again.content) == (200, first.content)
    # Refused by the runtime a moment ago: nothing came of it, and nothing is sent again while the backlog is full.
    sent = len(public.bus.sent)
    assert (await execute("second")).status_code == 429
    assert len(public.bus.sent) == sent
    public.clock.advance(1)
    public.bus.upstream = lambda sent: [started(sent), completed(sent)]
    assert [(await execute(key)).status_code for key in ("second", "further-0")] == [200, 200]


async def test_a_turn_that_outlasts_the_wait_goes_on(public: Gateway) -> None:
    public.bus.upstream = lambda sent: [started(sent)]
    response = await public.client.post(PATH, json={"content": "Hi"}, headers={"Prefer": "wait=1"})
    assert (response.status_code, response.json()["status"]) == (202, "running")
    assert response.headers["preference-applied"] == "wait=1"
    assert public.bus.waiters == {}


async def test_a_stream_names_its_events_and_ends_with_the_terminal_one(public: Gateway) -> None:
    def upstream(sent: Sent) -> Iterable[Event]:
        yield started(sent)
        yield delta(sent, "Hel")
        yield delta(sent, "lo.", 3)
        yield completed(sent)
        yield delta(sent, "late")

    public.bus.upstream = upstream
    response = await public.client.post(PATH, json={"content": "Hi"}, headers=STREAM)
    assert response.headers["content-type"] == "text/event-stream"
    events = events_in(response.text)
    assert [name for name, _ in events] == [
        "turn.started",
        "turn.output_text.delta",
        "turn.output_text.delta",
        "turn.output_text.done",
        "turn.completed",
    ]
    assert events[-1][1] == orjson.loads(completed(public.bus.sent[0]).encode())
    assert response.headers["location"] == f"/api/v1/runtime/{SESSION}/turns/{public.bus.sent[0].command_id}/"
    assert isinstance(public.bus.sent[0].command, ExecuteTurn)
    assert public.bus.sent[0].command.request.stream is True


@pytest.mark.parametrize("first", [{}, STREAM, {"Prefer": "respond-async"}])
async def test_a_repeat_in_any_form_finds_the_same_turn(public: Gateway, first: dict[str, str]) -> None:
    public.bus.upstream = lambda sent: [started(sent), completed(sent)]
    key = {"Idempotency-Key": "once"}
    body = {"content": "Hi"}
    await public.client.post(PATH, json=body, headers={**key, **first})
    turn_id = public.bus.sent[0].command_id
    blocking = await public.client.post(PATH, json=body, headers=key)
    streamed = await public.client.post(PATH, json=body, headers={**key, **STREAM})
    background = await public.client.post(PATH, json=body, headers={**key, "Prefer": "respond-async"})
    assert blocking.json()["turn_id"] == background.json()["turn_id"] == turn_id
    shown = events_in(streamed.text)
    assert {data["turn_id"] for _, data in shown} == {turn_id}
    names = ["turn.started", "turn.output_text.delta", "turn.output_text.done", "turn.completed"]
    assert [name for name, _ in shown] == names
    assert len(public.bus.sent) == 1


async def test_two_waiters_of_one_turn_get_the_same_end(public: Gateway) -> None:
    headers = {"Idempotency-Key": "once"}
    first = asyncio.create_task(public.client.post(PATH, json={"content": "Hi"}, headers=headers))
    sent = await public.until_sent()
    second = asyncio.create_task(public.client.post(PATH, json={"content": "Hi"}, headers=headers))
    await public.until_sent(2)
    public.bus.publish(sent, completed(sent))
    answers = [await first, await second]
    assert {answer.content for answer in answers} == {completed(sent).encode() + b"\n"}


@pytest.mark.parametrize("headers", [[], [(b"accept", b"text/event-stream")]])
async def test_a_caller_who_leaves_leaves_no_waiter_behind(public: Gateway, headers: list[tuple[bytes, bytes]]) -> None:
    left = asyncio.Event()
    body = asyncio.Queue[MutableMapping[str, Any]]()
    body.put_nowait({"type": "http.request", "body": b'{"content": "Hi"}', "more_body": False})

    async def receive() -> MutableMapping[str, Any]:
        if body.empty():
            await left.wait()
            return {"type": "http.disconnect"}
        return body.get_nowait()

    answered: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        answered.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": f"/api/v1{PATH}",
        "raw_path": f"/api/v1{PATH}".encode(),
        "query_string": b"",
        "headers": [
            (b"x-api-key", public.client.headers["x-api-key"].encode()),
            (b"content-type", b"application/json"),
            *headers,
        ],
    }
    call = asyncio.create_task(public.api.application(scope, receive, send))
    sent = await public.until_sent()
    public.bus.publish(sent, started(sent))
    left.set()
    done, _ = await asyncio.wait({call}, timeout=60)
    assert done == {call}
    assert public.bus.waiters == {}
    assert not any(message["type"] == "http.response.start" and message["status"] >= 400 for message in answered)


async def test_revoking_the_key_ends_its_open_streams(public: Gateway) -> None:
    streaming = asyncio.create_task(public.client.post(PATH, json={"content": "Hi"}, headers=STREAM))
    sent = await public.until_sent()
    public.bus.publish(sent, started(sent))
    await elapse(1)
    public.api.credentials.revoked(public.key.id)
    done, _ = await asyncio.wait({streaming}, timeout=60)
    assert done == {streaming}
    response = streaming.result()
    assert [name for name, _ in events_in(response.text)] == ["turn.started"]
    assert public.bus.waiters == {}


async def test_a_key_revoked_before_the_first_event_gets_no_stream(public: Gateway) -> None:
    streaming = asyncio.create_task(public.client.post(PATH, json={"content": "Hi"}, headers=STREAM))
    sent = await public.until_sent()
    public.api.credentials.revoked(public.key.id)
    public.bus.publish(sent, started(sent))
    done, _ = await asyncio.wait({streaming}, timeout=60)
    assert done == {streaming}
    assert streaming.result().status_code == 401
    assert public.bus.waiters == {}


OPTIONS: dict[str, Any] = {
    "instructions": "Rhyme.",
    "temperature": 0,
    "top_p": 0.5,
    "max_tokens": 10,
    "stop": ["END"],
    "tool_choice": {"name": "calculator"},
    "parallel_tool_calls": False,
    "client_tools": [{"name": "locate", "description": "Where the user is.", "parameters": {"type": "object"}}],
    "output_schema": {"type": "object", "properties": {"answer": {"type": ["string", "null"], "default": None}}},
}


async def test_options_travel_with_the_command(public: Gateway) -> None:
    public.bus.upstream = lambda sent: [started(sent), completed(sent)]
    assert (await public.client.post(PATH, json={"content": "Hi", "options": OPTIONS})).status_code == 200
    await public.client.post(PATH, json={"content": "Hi"})
    with_options, plain = [ExecuteTurn.decode(sent.command.encode()).request for sent in public.bus.sent]
    assert with_options.options.model_dump() == {**dict.fromkeys(TurnOptions.model_fields), **OPTIONS}
    assert plain.options is None


async def test_options_are_checked(public: Gateway) -> None:
    cases: list[Any] = [
        ({"temperature": 3}, ["options", "temperature"]),
        ({"temperature": "0"}, ["options", "temperature"]),
        ({"stop": []}, ["options", "stop"]),
        ({"stop": ["a", "b", "c", "d", "e"]}, ["options", "stop"]),
        ({"stop": [""]}, ["options", "stop", 0]),
        ({"tool_choice": "sometimes"}, ["options", "tool_choice"]),
        ({"tool_choice": {"tool": "x"}}, ["options", "tool_choice", "tool"]),
        ({"max_tokens": 0}, ["options", "max_tokens"]),
        ({"instructions": ""}, ["options", "instructions"]),
        ({"colour": "red"}, ["options", "colour"]),
        ({"output_schema": {"type": "objct"}}, ["options", "output_schema", "type"]),
        ({"output_schema": {"$ref": "http://127.0.0.1/x"}}, ["options", "output_schema"]),
        ({"client_tools": [{"name": "a b"}]}, ["options", "client_tools", 0, "name"]),
        ({"client_tools": [{"name": "a"}, {"name": "a"}]}, ["options", "client_tools", 1, "name"]),
        (
            {"client_tools": [{"name": "a", "parameters": {"type": 1}}]},
            ["options", "client_tools", 0, "parameters", "type"],
        ),
        ([], ["options"]),
    ]
    for options, place in cases:
        response = await public.client.post(PATH, json={"content": "Hi", "options": options})
        assert response.status_code == 422
        assert place in [detail["loc"] for detail in error_of(response)["details"]]
        assert public.bus.sent == []
