"""Turns as their callers see them: order, waiting, streaming."""

import asyncio
import json
import signal
from collections import defaultdict

import pytest

from tests.e2e.api import Api, check_error, unique
from tests.e2e.event_log import ENDS, EventLog, count_by_subject
from tests.e2e.held_model import HeldModel
from tests.e2e.running_stack import RunningStack
from tests.support.waiting import until


async def test_turns_of_one_session_run_one_after_the_other(api: Api, model: HeldModel, event_log: EventLog) -> None:
    session = await api.session("openai:stub-hold-count")
    first, second = unique("first"), unique("second")
    with model.held():
        early = asyncio.create_task(api.execute(session, first, x_correlation_id=first))
        await until(lambda: _asked(model, first))
        late = await api.in_background(session, second, x_correlation_id=second)
        assert late["status"] == "queued"
        assert not model.asked(second)
    assert (await early).json()["response"]["content"] == "1 messages"
    ended = await api.turn_ended(session, late["turn_id"])
    # It was given the first question and its answer.
    assert ended["reply"]["response"]["content"] == "3 messages"
    assert [message["content"] for message in await api.messages(session)] == [
        first, "1 messages", second, "3 messages",
    ]  # fmt: skip
    names = defaultdict(list)
    for event in await event_log.ended([first, second]):
        names[event.correlation_id].append(event.name)
    assert names == {
        first: ["turn.started", "turn.completed"],
        second: ["turn.queued", "turn.started", "turn.completed"],
    }


async def test_executes_at_once_on_one_session_are_all_answered_in_their_order(api: Api) -> None:
    session = await api.session("openai:stub-echo")
    texts = [unique("same") for _ in range(10)]
    replies = await asyncio.gather(*(api.execute(session, text) for text in texts))
    assert [reply.json()["response"]["content"] for reply in replies] == [f"You said: {text}" for text in texts]
    history = await api.messages(session)
    pairs = [
        (question["content"], answer["content"]) for question, answer in zip(history[::2], history[1::2], strict=True)
    ]
    assert sorted(pairs) == sorted((text, f"You said: {text}") for text in texts)


async def test_fifty_sessions_run_side_by_side(api: Api, model: HeldModel) -> None:
    sessions = await api.sessions(50, "openai:stub-hold")
    texts = [unique("beside") for _ in sessions]
    with model.held():
        callers = [asyncio.create_task(api.execute(*turn)) for turn in zip(sessions, texts, strict=True)]
        # All of them are with the model at the same time.
        await until(lambda: _asked(model, *texts))
    replies = await asyncio.gather(*callers)
    assert {reply.status_code for reply in replies} == {200}
    assert len({reply.json()["turn_id"] for reply in replies}) == 50


async def test_a_closed_connection_does_not_stop_the_turn(api: Api, model: HeldModel) -> None:
    blocking, streaming = await api.sessions(2, "openai:stub-hold-echo")
    texts = unique("left"), unique("left")

    async def follow() -> None:
        async for _ in api.events(streaming, texts[1]):
            pass

    with model.held():
        callers = [asyncio.create_task(api.execute(blocking, texts[0])), asyncio.create_task(follow())]
        await until(lambda: _asked(model, *texts))
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    for session, text in zip((blocking, streaming), texts, strict=True):
        history = await until(lambda session=session: _answered(api, session))
        assert [message["content"] for message in history] == [text, f"You said: {text}"]
        assert len(model.asked(text)) == 1


async def test_a_turn_that_takes_longer_than_the_caller_waits(api: Api, model: HeldModel) -> None:
    session = await api.session("openai:stub-hold-echo")
    label, text = unique("longer"), unique("slowly")
    with model.held():
        accepted = await api.in_background(session, text, idempotency_key=label, x_correlation_id=label)
        # It may take a moment until it runs, and longer on a busy machine than the caller waits.
        await until(lambda: _asked(model, text))
        reply = await api.execute(session, text, prefer="wait=1", idempotency_key=label)
        assert reply.status_code == 202
        body = reply.json()
        assert body == {
            "success": True,
            "turn_id": accepted["turn_id"],
            "session_id": session,
            "status": "running",
            "correlation_id": label,
            "required_actions": [],
        }
        assert reply.headers["location"] == f"/api/v1/runtime/{session}/turns/{body['turn_id']}/"
        assert reply.headers["preference-applied"] == "wait=1"
        turn = await api.turn(session, body["turn_id"])
        assert (turn["status"], turn.get("reply"), turn.get("finished_at")) == ("running", None, None)
    ended = await api.turn_ended(session, body["turn_id"])
    assert ended["status"] == "completed"
    assert ended["reply"]["response"]["content"] == f"You said: {text}"
    assert ended["reply"]["correlation_id"] == ended["correlation_id"] == label
    assert ended["created_at"] <= ended["started_at"] <= ended["finished_at"]
    counted = ("input_tokens", "output_tokens", "model_calls", "tool_calls")
    assert [ended["usage"][name] for name in counted] == [42, 80, 1, 0]


async def test_respond_async_answers_once_the_turn_is_accepted(api: Api) -> None:
    session = await api.session()
    reply = await api.execute(session, "later", prefer="respond-async")
    assert reply.status_code == 202
    assert reply.headers["preference-applied"] == "respond-async"
    assert (await api.turn_ended(session, reply.json()["turn_id"]))["status"] == "completed"


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


async def test_a_streamed_turn(api: Api) -> None:
    session = await api.session("openai:stub-tool-slow-600", tools=["calculator"])
    label = unique("stream")
    events = [event async for event in api.events(session, "what is 6*7?", x_correlation_id=label)]
    names = [event.name for event in events]
    assert names[0] == "turn.started"
    assert names[-1] == "turn.completed"
    assert set(names) <= {
        "turn.started", "turn.output_text.delta", "turn.output_text.done", "turn.tool_call.started",
        "turn.tool_call.completed", "turn.completed",
    }  # fmt: skip
    assert names.index("turn.tool_call.started") < names.index("turn.tool_call.completed")
    reply = events[-1].data
    assert reply["correlation_id"] == label
    deltas = [event.data for event in events if event.name == "turn.output_text.delta"]
    assert len(deltas) > 1
    assert {(delta["turn_id"], delta["attempt"]) for delta in deltas} == {(reply["turn_id"], 1)}
    last = max(delta["step"] for delta in deltas)
    text = ""
    for delta in (delta for delta in deltas if delta["step"] == last):
        assert delta["offset"] == len(text)
        text += delta["text"]
    assert text == reply["response"]["content"]
    assert (await api.messages(session))[1]["content"] == text


async def test_a_streamed_turn_that_fails(api: Api) -> None:
    session = await api.session("openai:stub-error-400")
    events = [event async for event in api.events(session, "fail")]
    assert events[-1].name == "turn.failed"
    assert events[-1].data["error"]["type"] == "model_error"


async def test_a_streamed_request_that_is_refused_gets_its_status(api: Api) -> None:
    session = await api.session()
    await api.http.delete(f"/sessions/{session}/")
    reply = await api.execute(session, "anyone?", accept="text/event-stream")
    check_error(reply, 404, "not_found_error")


async def test_a_failing_model_is_a_502_and_a_failed_turn(api: Api) -> None:
    session = await api.session("openai:stub-error-400")
    label = unique("fail")
    reply = await api.execute(session, "fail", x_correlation_id=label)
    error = check_error(reply, 502, "model_error")
    assert error["correlation_id"] == label
    assert "sk-stub" not in reply.text
    after = await api.execute(session, "and again")
    assert after.status_code == 502


async def test_a_model_that_fails_for_a_moment_is_asked_again(api: Api) -> None:
    session = await api.session(f"openai:stub-flaky-1-{unique()}")
    assert (await api.execute(session, "hello")).status_code == 200


async def test_a_session_takes_a_bounded_number_of_waiting_turns(api: Api, model: HeldModel) -> None:
    session = await api.session("openai:stub-hold")
    with model.held():
        replies = [await api.execute(session, "next", prefer="respond-async") for _ in range(21)]
        assert [reply.status_code for reply in replies] == [202] * 20 + [429]
        check_error(replies[-1], 429, "rate_limit_error")
        assert int(replies[-1].headers["retry-after"]) >= 1
        assert (await api.http.delete(f"/sessions/{session}/")).status_code == 204


@pytest.mark.failover("turns of a worker that stops in order")
@pytest.mark.parametrize("form", ["blocking", pytest.param("in the background", marks=pytest.mark.slow)])
async def test_the_runtime_restarts_gracefully_under_load(
    breakable: RunningStack, api: Api, event_log: EventLog, form: str
) -> None:
    sessions = await api.sessions(12, "openai:stub-slow-200-echo")
    texts = [[unique("load") for _ in range(4)] for _ in sessions]

    async def converse(session: str, own: list[str]) -> None:
        for text in own:
            headers = {"x-correlation-id": text, "idempotency-key": text}
            if form != "blocking":
                headers["prefer"] = "respond-async"
            path = f"/runtime/{session}/execute/"
            reply = await api.persistently("POST", path, json={"content": text}, headers=headers)
            assert reply.status_code in (200, 202), reply.text

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


async def _asked(model: HeldModel, *texts: str) -> bool:
    return all(model.asked(text) for text in texts)


async def _answered(api: Api, session: str, turns: int = 1) -> list[dict[str, object]] | None:
    history = await api.messages(session)
    return history if sum(message["role"] == "assistant" for message in history) >= turns else None


async def test_one_turn_answers_as_data(api: Api) -> None:
    session = await api.session("builtin:extractive", tools=["calculator"])
    schema = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    body = {"content": "What is 2 * 84?", "options": {"output_schema": schema, "parallel_tool_calls": False}}
    reply = await api.http.post(f"/runtime/{session}/execute/", json=body)
    assert reply.status_code == 200, reply.text
    response = reply.json()["response"]
    assert (response["output"], json.loads(response["content"])) == ({"result": 168}, {"result": 168})
    plain = (await api.execute(session, "What is 2 * 85?")).json()["response"]
    assert "output" not in plain
    body["options"] = {"output_schema": {"type": "object", "properties": {"x": {"type": "null"}}, "required": ["y"]}}
    check_error(await api.http.post(f"/runtime/{session}/execute/", json=body), 502, "model_error")
    body["options"] = {"tool_choice": "required"}
    check_error(await api.http.post(f"/runtime/{session}/execute/", json=body), 422, "validation_error")
