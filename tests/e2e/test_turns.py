"""Turns as their callers see them: order, waiting, streaming, repeats, cancelling."""

import asyncio
import signal
from collections import defaultdict
from typing import Any

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


async def test_a_failing_model_is_a_502_and_a_failed_turn(api: Api) -> None:
    session = await api.session("openai:stub-error-400")
    label = unique("fail")
    reply = await api.execute(session, "fail", x_correlation_id=label)
    error = check_error(reply, 502, "model_error")
    assert error["correlation_id"] == label
    assert "sk-stub" not in reply.text
    after = await api.execute(session, "and again")
    assert after.status_code == 502


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


async def _asked(model: HeldModel, *texts: str) -> bool:
    return all(model.asked(text) for text in texts)


async def _answered(api: Api, session: str, turns: int = 1) -> list[dict[str, object]] | None:
    history = await api.messages(session)
    return history if sum(message["role"] == "assistant" for message in history) >= turns else None


@pytest.mark.rule(5)
async def test_repeats_while_the_turn_runs_wait_for_the_same_end(api: Api, model: HeldModel) -> None:
    session = await api.session("openai:stub-hold")
    text, key = unique("together"), unique("key")
    with model.held():
        callers = [asyncio.create_task(api.execute(session, text, idempotency_key=key)) for _ in range(6)]
        callers.append(asyncio.create_task(_last_event(api, session, text, key)))
        await until(lambda: _asked(model, text))
    replies = await asyncio.gather(*callers)
    assert {reply.content for reply in replies[:-1]} == {replies[0].content}
    assert replies[-1] == replies[0].json()
    assert len(model.asked(text)) == 1
    assert len(await api.messages(session)) == 2


async def _last_event(api: Api, session: str, text: str, key: str) -> Any:
    return [event async for event in api.events(session, text, idempotency_key=key)][-1].data


async def test_cancelling_a_running_turn(api: Api, model: HeldModel, event_log: EventLog) -> None:
    session = await api.session("openai:stub-hold")
    label = unique("cancelled")
    with model.held():
        caller = asyncio.create_task(api.execute(session, label, x_correlation_id=label))
        await until(lambda: _asked(model, label))
        turn_id = await _turn_of(event_log, label)
        reply = await api.http.post(f"/runtime/{session}/turns/{turn_id}/cancel/")
        assert reply.status_code == 200
        assert reply.json() == {"success": True, "turn_id": turn_id, "session_id": session, "status": "cancelled"}
        check_error(await caller, 409, "conflict_error")
        assert (await api.turn(session, turn_id))["status"] == "cancelled"
    check_error(await api.http.post(f"/runtime/{session}/turns/{turn_id}/cancel/"), 409, "conflict_error")
    # The session goes on.
    after = await api.execute(session, "next")
    assert after.status_code == 200
    assert count_by_subject(await event_log.ended([label]), *ENDS) == {turn_id: 1}


async def _turn_of(log: EventLog, label: str, name: str = "turn.started") -> str:
    async def look() -> str | None:
        return next((event.subject for event in await log.read([label]) if event.name == name), None)

    return await until(look)
