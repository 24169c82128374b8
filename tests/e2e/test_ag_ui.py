"""Agents as AG-UI agents: by the protocol's types, and by its own client where there is Node."""

import asyncio
import json
import subprocess
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from ag_ui.core import Event, EventType
from pydantic import TypeAdapter

from tests.e2e.api import MODEL, Api, check_error, configuration, unique
from tests.e2e.conftest import Caller
from tests.e2e.running_stack import RunningStack
from tests.e2e.test_waits import BOTH, GUARDED, ORDER_STATUS
from tests.support.node_packages import node_module

EVENT: TypeAdapter[Any] = TypeAdapter(Event)
CLIENT = Path(__file__).with_name("ag_ui_client.mjs")
PAGE = f"https://{unique('page')}.example"


def user(content: Any, **fields: Any) -> dict[str, Any]:
    return {"id": unique(), "role": "user", "content": content, **fields}


def run_of(thread: str, *messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"threadId": thread, "runId": str(uuid.uuid4()), "messages": list(messages), **fields}


class Agent:
    """An agent's address for one caller. Every event is checked by the protocol's types."""

    def __init__(self, http: httpx.AsyncClient, url: str, **how: Any) -> None:
        self._http, self._url, self._how = http, url, how

    async def post(self, run: dict[str, Any]) -> httpx.Response:
        return await self._http.post(self._url, json=run, **self._how)

    async def events(self, run: dict[str, Any]) -> AsyncIterator[Any]:
        async with self._http.stream("POST", self._url, json=run, **self._how) as reply:
            assert reply.status_code == 200, (await reply.aread()).decode()
            assert reply.headers["content-type"].startswith("text/event-stream")
            assert {"x-session-id", "x-turn-id", "x-correlation-id"} <= set(reply.headers)
            async for line in reply.aiter_lines():
                if line.startswith("data: "):
                    yield EVENT.validate_json(line.removeprefix("data: "))

    async def run(self, run: dict[str, Any]) -> list[Any]:
        return [event async for event in self.events(run)]


def text_of(events: list[Any]) -> str:
    """The last message."""
    texts: dict[str, str] = {}
    for event in events:
        if event.type == EventType.TEXT_MESSAGE_CONTENT:
            texts[event.message_id] = texts.get(event.message_id, "") + event.delta
    return list(texts.values())[-1]


def session_of(events: list[Any]) -> tuple[str, str]:
    (state,) = [event.snapshot for event in events if event.type == EventType.STATE_SNAPSHOT]
    return state["session"]["session_id"], state["session"]["turn_id"]


async def agent_of(stack: RunningStack, api: Api, model: str = MODEL, **fields: Any) -> Agent:
    return Agent(api.http, f"{stack.base_url}/ag-ui/{await api.agent(model, **fields)}")


async def test_a_thread_is_a_session_and_only_new_messages_are_new(stack: RunningStack, api: Api) -> None:
    agent, thread = await agent_of(stack, api, "openai:stub-echo"), unique()
    first = user("one")
    run = run_of(thread, first)
    events = await agent.run(run)
    session, turn = session_of(events)
    reply = (await api.turn(session, turn))["reply"]
    assert text_of(events) == reply["response"]["content"]
    assert events[-1].outcome.type == "success"
    assert events[-1].result["message_id"] == reply["message_id"]
    assert text_of(await agent.run(run)) == text_of(events)
    answer = {"id": "a1", "role": "assistant", "content": text_of(events)}
    following = await agent.run(run_of(thread, first, answer, user("two")))
    assert session_of(following)[0] == session
    assert [each["content"] for each in await api.messages(session) if each["role"] == "user"] == ["one", "two"]
    nothing = await agent.post(run_of(thread, first, answer))
    check_error(nothing, 422, "validation_error")
    other = await agent.post({**run, "messages": [user("other")]})
    check_error(other, 422, "validation_error")
    assert (await api.http.get(f"/sessions/{session}/")).json()["status"] == "active"


async def test_approvals_are_interrupts_and_client_tools_are_pending_calls(stack: RunningStack, api: Api) -> None:
    agent, thread = await agent_of(stack, api, BOTH, **GUARDED), unique()
    asked = user(unique("refund"))
    events = await agent.run(run_of(thread, asked))
    (interrupt,) = events[-1].outcome.interrupts
    calls = {event.tool_call_name: event.tool_call_id for event in events if event.type == EventType.TOOL_CALL_START}
    assert interrupt.tool_call_id == calls["calculator"]
    called = [
        {"id": call, "type": "function", "function": {"name": name, "arguments": "{}"}} for name, call in calls.items()
    ]
    history = [asked, {"id": "a1", "role": "assistant", "toolCalls": called}]
    other = await agent.post(run_of(thread, *history, user("hello?")))
    check_error(other, 409, "conflict_error")
    history.append({"id": "x", "role": "tool", "toolCallId": calls["order_status"], "content": "paid"})
    half = await agent.run(run_of(thread, *history))
    assert [each.id for each in half[-1].outcome.interrupts] == [interrupt.id]
    resume = [{"interruptId": interrupt.id, "status": "resolved", "payload": {"decision": "approve"}}]
    run = run_of(thread, *history, resume=resume)
    whole = await agent.run(run)
    session, turn = session_of(whole)
    results = {event.tool_call_id for event in whole if event.type == EventType.TOOL_CALL_RESULT}
    assert results == {calls["calculator"]}
    assert text_of(whole) == (await api.turn(session, turn))["reply"]["response"]["content"]
    assert text_of(await agent.run(run)) == text_of(whole)
    assert len(await api.messages(session)) == 2


async def test_visitors_talk_to_a_public_agent(stack: RunningStack, api: Api, anonymous: httpx.AsyncClient) -> None:
    body = configuration("openai:stub-client", name=unique("Open"), is_public=True, allowed_origins=[PAGE])
    made = await api.http.post("/agent/", json={**body, "client_tools": [ORDER_STATUS]})
    key = made.json()["agent_key"]
    url = f"{stack.base_url}/ag-ui/{key}"
    asked = {"origin": PAGE, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    allowed = await anonymous.options(url, params={"agent_key": key}, headers=asked)
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (204, PAGE)
    page = Agent(anonymous, url, params={"agent_key": key}, headers={"origin": PAGE})
    thread, question = str(uuid.uuid4()), user("where is it?")
    waiting = await page.run(run_of(thread, question, tools=[ORDER_STATUS]))
    (pending,) = waiting[-1].outcome.pending_tool_call_ids
    call = {"id": pending, "type": "function", "function": {"name": "order_status", "arguments": "{}"}}
    answered = {"id": "x", "role": "tool", "toolCallId": pending, "content": "in Bremen"}
    history = [question, {"id": "a1", "role": "assistant", "toolCalls": [call]}, answered]
    done = await page.run(run_of(thread, *history, tools=[ORDER_STATUS]))
    assert done[-1].result["session_id"] == session_of(waiting)[0]
    check_error(await page.post(run_of("guess", user("x"))), 422, "validation_error")
    context = [{"description": "a", "value": "b"}]
    refused = await page.post(run_of(str(uuid.uuid4()), user("x"), context=context))
    check_error(refused, 403, "permission_error")
    elsewhere = Agent(anonymous, url, params={"agent_key": key}, headers={"origin": "https://elsewhere.example"})
    check_error(await elsewhere.post(run_of(thread, user("x"))), 403, "permission_error")
    other = await api.agent()
    wrong = Agent(anonymous, f"{stack.base_url}/ag-ui/{other}", params={"agent_key": key}, headers={"origin": PAGE})
    check_error(await wrong.post(run_of(thread, user("x"))), 403, "permission_error")


async def test_a_run_that_broke_off_is_joined_again(stack: RunningStack, api: Api) -> None:
    agent, thread, asked = await agent_of(stack, api, "openai:stub-slow-3000"), unique(), user("tell me")
    async for event in agent.events(run_of(thread, asked)):
        if event.type == EventType.TEXT_MESSAGE_CONTENT:
            partial = {"id": event.message_id, "role": "assistant", "content": event.delta}
            break
    run = run_of(thread, asked, partial)
    again = await agent.run(run)
    session, turn = session_of(again)
    assert text_of(again) == (await api.turn(session, turn))["reply"]["response"]["content"]
    assert len(await api.messages(session)) == 2
    assert text_of(await agent.run(run)) == text_of(again), "and once more, when it has ended"
    assert again[2].type == EventType.MESSAGES_SNAPSHOT
    assert [each.id for each in again[2].messages] == [asked["id"]]
    assert partial["id"] in {event.message_id for event in again if event.type == EventType.TEXT_MESSAGE_START}


async def test_the_protocols_own_client(stack: RunningStack, api: Api, alice: Caller) -> None:
    node, module = await asyncio.to_thread(node_module, "@ag-ui/client", "dist/index.mjs")
    key = await api.agent(BOTH, **GUARDED)
    thread = unique()
    asked = {
        "url": f"{stack.base_url}/ag-ui/{key}",
        "headers": {"Authorization": f"Bearer {stack.api_key}"},
        "threadId": thread,
        "messages": [unique("refund"), "thank you"],
        "results": {"order_status": "paid"},
        "decision": "approve",
    }
    process = await asyncio.create_subprocess_exec(
        node, str(CLIENT), module, json.dumps(asked), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    async with asyncio.timeout(120):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    has = json.loads(out)
    session = has["state"]["session"]["session_id"]
    recorded = await api.messages(session)
    assert [each["content"] for each in has["messages"] if each["role"] == "user"] == asked["messages"]
    replies = [each["content"] for each in recorded if each["role"] == "assistant"]
    texts = [each["content"] for each in has["messages"] if each["role"] == "assistant" and each.get("content")]
    assert [text for text in texts if text in replies] == replies
    assert texts[-1] == replies[-1]
    assert {each["toolCallId"] for each in has["messages"] if each["role"] == "tool"} == {
        call["id"] for each in has["messages"] for call in each.get("toolCalls", ())
    }
    assert "interrupt" in {end["type"] for end in has["ends"]}
