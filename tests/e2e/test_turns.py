"""Turns as their callers see them: order, waiting, streaming, repeats, cancelling."""

import asyncio
import signal

import pytest

from tests.e2e.api import Api, unique
from tests.e2e.event_log import ENDS, EventLog, count_by_subject
from tests.e2e.running_stack import RunningStack
from tests.support.waiting import until


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
