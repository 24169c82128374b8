"""OpenAI's responses, used by OpenAI's own client as it comes."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import Response
from pydantic import BaseModel

from libs.contracts.identifiers import new_id
from tests.e2e.api import Api, unique
from tests.e2e.held_model import HeldModel
from tests.e2e.running_stack import RunningStack
from tests.servers.model_stub import TEXT
from tests.support.node_packages import node_module
from tests.support.waiting import until

JAVASCRIPT = Path(__file__).with_name("openai_client.mjs")
CALCULATOR: dict[str, Any] = {"agent_type": "react_agent", "tools": ["calculator"]}
ORDER_STATUS: Any = {
    "type": "function",
    "name": "order_status",
    "description": "Looks up an order.",
    "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]},
    "strict": True,
}


def client_of(stack: RunningStack, key: str) -> AsyncOpenAI:
    return AsyncOpenAI(api_key=key, base_url=f"{stack.base_url}/openai/v1", max_retries=0, timeout=120)


@pytest.fixture
async def client(stack: RunningStack) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(stack, stack.api_key) as own:
        yield own


async def test_a_response_is_what_the_turn_is(api: Api, client: AsyncOpenAI) -> None:
    model = await api.agent()
    raw = await client.responses.with_raw_response.create(
        model=model,
        input="Hello",
        instructions="Be brief.",
        temperature=0.5,
        metadata={"ticket": "4711"},
    )
    response = raw.parse()
    assert (response.status, response.output_text, response.model) == ("completed", TEXT, model)
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens > 0
    turn = (await api.http.get(f"/runtime/{raw.headers['x-session-id']}/turns/{raw.headers['x-turn-id']}/")).json()
    assert (response.id, turn["reply"]["response"]["content"]) == (f"resp_{turn['turn_id']}", TEXT)
    assert raw.headers["x-request-id"] == raw.headers["x-correlation-id"] == turn["correlation_id"]
    assert await client.responses.retrieve(response.id) == response
    items = await client.responses.input_items.list(response.id)
    assert [(item.type, item.content[0].text) for item in items.data] == [("message", "Hello")]  # type: ignore[union-attr]

    await client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(response.id)


async def test_a_stream_ends_with_the_response_and_is_resumed_in_its_middle(api: Api, client: AsyncOpenAI) -> None:
    model = await api.agent("openai:stub-tool", **CALCULATOR)
    async with client.responses.stream(model=model, input="What is 6*7?") as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
    assert max(numbers) < 2**53
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == TEXT
    assert [item.type for item in final.output] == ["mcp_call", "message"]
    call = final.output[0]
    assert call.type == "mcp_call"
    assert (call.server_label, call.name, call.status, "42" in (call.output or "")) == (
        "builtin", "calculator", "completed", True,
    )  # fmt: skip
    assert final.output_text == TEXT
    again = await client.responses.retrieve(final.id)
    assert again.model_dump(exclude={"output"}) == Response(**final.model_dump()).model_dump(exclude={"output"})
    assert [item.id for item in again.output] == [item.id for item in final.output]
    assert again.output_text == TEXT

    before, after = events[: len(events) // 2], events[len(events) // 2 :]
    rest = await client.responses.retrieve(final.id, stream=True, starting_after=before[-1].sequence_number)
    got = [event async for event in rest]
    assert "".join(event.delta for event in [*before, *got] if event.type == "response.output_text.delta") == TEXT
    assert [event.type for event in got if event.type != "response.output_text.delta"] == [
        event.type for event in after if event.type != "response.output_text.delta"
    ]


async def test_functions_of_the_client_are_called_and_answered(api: Api, client: AsyncOpenAI) -> None:
    model = await api.agent("openai:stub-client")
    asked = await client.responses.create(model=model, input="Where is my order?", tools=[ORDER_STATUS])
    call = asked.output[0]
    assert call.type == "function_call"
    assert (asked.status, call.name, call.arguments) == ("completed", "order_status", '{"order":4711}')
    assert await client.responses.retrieve(asked.id) == asked
    with pytest.raises(openai.BadRequestError, match="No tool output found"):
        await client.responses.create(model=model, input="Well?", previous_response_id=asked.id)
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "shipped"}
    with pytest.raises(openai.BadRequestError, match="No call found"):
        await client.responses.create(
            model=model, input=[{**output, "call_id": "call_0"}], previous_response_id=asked.id
        )
    stream = await client.responses.create(
        model=model, input=[output], previous_response_id=asked.id, tools=[ORDER_STATUS], stream=True
    )
    events = [event async for event in stream]
    completed = events[-1]
    assert completed.type == "response.completed"
    done = completed.response
    assert (done.output_text, done.id, done.previous_response_id) == (TEXT, f"{asked.id}_1", asked.id)
    assert await client.responses.retrieve(done.id) == done
    assert await client.responses.retrieve(asked.id) == asked
    items = await client.responses.input_items.list(done.id)
    assert [(item.type, item.output) for item in items.data] == [("function_call_output", "shipped")]  # type: ignore[union-attr]
    after = await client.responses.create(model=model, input="Thanks", previous_response_id=done.id)
    assert after.status == "completed"


async def test_approvals_are_asked_for_and_given(api: Api, client: AsyncOpenAI) -> None:
    policy = {"calculator": {"approval": "always"}}
    model = await api.agent("openai:stub-tool", **CALCULATOR, tool_policies=policy)
    asked = await client.responses.create(model=model, input="What is 6*7?")
    request = asked.output[0]
    assert request.type == "mcp_approval_request"
    assert (request.server_label, request.name, request.arguments) == ("builtin", "calculator", '{"expression":"6*7"}')
    done = await client.responses.create(
        model=model,
        previous_response_id=asked.id,
        input=[{"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}],
    )
    call = done.output[0]
    assert call.type == "mcp_call"
    assert (call.approval_request_id, call.status, done.output_text) == (request.id, "completed", TEXT)


class Computed(BaseModel):
    result: int


async def test_answers_have_the_form_that_is_asked_for(api: Api, client: AsyncOpenAI) -> None:
    model = await api.agent("builtin:extractive", **CALCULATOR)
    parsed = await client.responses.parse(model=model, input="What is 2 * 84?", text_format=Computed)
    assert parsed.output_parsed == Computed(result=168)
    assert parsed.text.format.type == "json_schema"
    async with client.responses.stream(model=model, input="What is 2 * 85?", text_format=Computed) as stream:
        assert (await stream.get_final_response()).output_parsed == Computed(result=170)
    stub = await api.agent()
    with pytest.raises(openai.APIStatusError, match="isn't JSON"):
        await client.responses.create(model=stub, input="Hello", text={"format": {"type": "json_object"}})


async def test_a_background_response_is_polled_and_cancelled(api: Api, client: AsyncOpenAI, model: HeldModel) -> None:
    name = await api.agent("openai:stub-hold")
    with model.held():
        queued = await client.responses.create(model=name, input=(said := unique("slowly")), background=True)
        await until(lambda: model.asked(said))
        assert queued.status in ("queued", "in_progress")
        assert queued.background
        other = await client.responses.create(model=name, input="Never mind", background=True)
        cancelled = await client.responses.cancel(other.id)
        assert (cancelled.status, cancelled.output) == ("cancelled", [])
        assert (await client.responses.retrieve(queued.id)).status == "in_progress"

    async def done() -> bool:
        return (await client.responses.retrieve(queued.id)).status == "completed"

    await until(done)
    assert (await client.responses.retrieve(queued.id)).output_text == TEXT
    assert (await client.responses.cancel(other.id)).status == "cancelled"
    with pytest.raises(openai.BadRequestError):
        await client.responses.cancel(queued.id)


async def test_the_last_response_goes_on_and_an_earlier_one_forks(api: Api, client: AsyncOpenAI) -> None:
    model = await api.agent("openai:stub-count")

    async def say(previous: str) -> tuple[str, str, str]:
        raw = await client.responses.with_raw_response.create(model=model, input="more", previous_response_id=previous)
        response = raw.parse()
        return response.id, response.output_text, raw.headers["x-session-id"]

    first = await client.responses.with_raw_response.create(model=model, input="one")
    began = first.parse()
    second = await say(began.id)
    assert second[2] == first.headers["x-session-id"]
    branches = await asyncio.gather(say(began.id), say(began.id))
    assert {text for _, text, _ in branches} == {second[1]}
    assert len({second[2], *(session for *_, session in branches)}) == 3
    onwards = await asyncio.gather(*(say(response_id) for response_id, *_ in branches))
    assert (second[1], {text for _, text, _ in onwards}) == ("3 messages", {"5 messages"})


async def test_what_is_not_stored_is_gone(api: Api, client: AsyncOpenAI) -> None:
    model = await api.agent()
    raw = await client.responses.with_raw_response.create(model=model, input="Hello", store=False)
    assert raw.parse().output_text == TEXT
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(raw.parse().id)
    assert (await api.http.get(f"/sessions/{raw.headers['x-session-id']}/")).status_code == 404
    stream = await client.responses.create(model=model, input="Hello", store=False, stream=True)
    events = [event async for event in stream]
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(events[-1].response.id)  # type: ignore[union-attr]


@pytest.mark.parametrize("stream", [True, False])
async def test_what_is_not_stored_ends_with_its_client(
    api: Api, client: AsyncOpenAI, model: HeldModel, *, stream: bool
) -> None:
    key, said = await api.agent("openai:stub-hold"), unique("dropped")

    async def ask() -> None:
        named = {"X-Correlation-ID": said}
        given = await client.responses.create(model=key, input=said, store=False, stream=stream, extra_headers=named)
        async for _ in given:  # type: ignore[union-attr]
            pass

    with model.held():
        asking = asyncio.create_task(ask())
        await until(lambda: model.asked(said))
        asking.cancel()

        async def removed() -> list[str] | None:
            events = (await api.http.get("/events/", params={"correlation_id": said})).json()["events"]
            names = [event["type"] for event in events]
            return names if "session.deleted" in names else None

        assert "turn.cancelled" in await until(removed)


async def test_a_client_may_keep_the_conversation_itself(api: Api, client: AsyncOpenAI) -> None:
    model = await api.agent("openai:stub-client")
    said: list[Any] = [
        {"role": "developer", "content": "Be polite."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello, what can I do?"},
        {"role": "user", "content": "Where is my order?"},
    ]
    asked = await client.responses.create(model=model, input=said, tools=[ORDER_STATUS], store=False)
    call = asked.output[0]
    assert call.type == "function_call"
    said += [item.to_dict() for item in asked.output]
    with pytest.raises(openai.BadRequestError, match="No tool output found"):
        await client.responses.create(model=model, input=said, tools=[ORDER_STATUS], store=False)
    said.append({"type": "function_call_output", "call_id": call.call_id, "output": "shipped"})
    done = await client.responses.create(model=model, input=said, tools=[ORDER_STATUS], store=False)
    assert (done.output_text, done.usage is not None) == (TEXT, True)
    counting = await api.agent("openai:stub-count")
    counted = await client.responses.create(model=counting, input=[*said[1:4]])
    assert counted.output_text == "3 messages"
    provided = await client.responses.create(model="openai:stub", input="Hello")
    assert provided.output_text == TEXT


async def test_a_conversation_gets_its_agent_with_its_first_response(api: Api, client: AsyncOpenAI) -> None:
    model, other = await api.agent("openai:stub-count"), await api.agent()
    opened = await client.conversations.create(
        metadata={"ticket": "1"}, items=[{"type": "message", "role": "user", "content": "I am Ada."}]
    )
    assert (opened.metadata, opened.id[:5]) == ({"ticket": "1"}, "conv_")
    with pytest.raises(openai.BadRequestError):
        await client.responses.create(input="Hello", conversation=opened.id)
    first = await client.responses.create(model=model, input="Hello", conversation=opened.id)
    assert (first.output_text, first.conversation and first.conversation.id) == ("2 messages", opened.id)
    second = await client.responses.create(input="Again", conversation=opened.id)
    assert second.output_text == "4 messages"
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model=other, input="Hello", conversation=opened.id)
    assert refused.value.param == "model"
    changed = await client.conversations.update(opened.id, metadata={"ticket": "2"})
    assert (await client.conversations.retrieve(opened.id)) == changed
    assert changed.metadata == {"ticket": "2"}

    items = [item async for item in client.conversations.items.list(opened.id, limit=2, order="asc")]
    texts = [item.content[0].text for item in items]  # type: ignore[union-attr]
    assert texts == ["I am Ada.", "Hello", "2 messages", "Again", "4 messages"]
    newest = await client.conversations.items.list(opened.id, limit=1)
    assert newest.data[0].id == items[-1].id
    assert await client.conversations.items.retrieve(items[1].id, conversation_id=opened.id) == items[1]
    for refusal in (
        client.conversations.items.delete(items[1].id, conversation_id=opened.id),
        client.conversations.items.create(opened.id, items=[{"role": "system", "content": "Later"}]),
        client.conversations.items.create(opened.id, items=[]),
        client.responses.delete(second.id),
    ):
        with pytest.raises((openai.BadRequestError, openai.ConflictError)):
            await refusal
    await client.conversations.delete(opened.id)
    with pytest.raises(openai.NotFoundError):
        await client.conversations.retrieve(opened.id)


async def test_items_are_added_between_responses(api: Api, client: AsyncOpenAI, model: HeldModel) -> None:
    key, opened = await api.agent("openai:stub-count"), await client.conversations.create()
    once: Any = {"extra_headers": {"Idempotency-Key": unique("items")}}
    call: Any = {"type": "function_call", "call_id": "c1", "name": "clock", "arguments": "{}"}
    output: Any = {"type": "function_call_output", "call_id": "c1", "output": "noon"}
    added = [
        await client.conversations.items.create(
            opened.id, items=[{"role": "user", "content": "What time is it?"}, call, output], **once
        )
        for _ in range(2)
    ]
    assert added[0] == added[1]
    assert [item.type for item in added[0].data] == ["message", "function_call", "function_call_output"]
    assert (await client.responses.create(model=key, input="Hello", conversation=opened.id)).output_text == "4 messages"
    await client.conversations.items.create(opened.id, items=[{"role": "assistant", "content": "By the way."}])
    listed = [item async for item in client.conversations.items.list(opened.id, order="asc")]
    assert [item.id for item in listed[:3]] == [item.id for item in added[0].data]
    assert len(listed) == 6
    with pytest.raises(openai.BadRequestError):
        await client.conversations.items.create(opened.id, items=[output])
    with pytest.raises(openai.NotFoundError):
        await client.conversations.items.create(f"conv_{new_id()}", items=[{"role": "user", "content": "Hello"}])
    held = await api.agent("openai:stub-hold")
    busy, said = await client.conversations.create(), unique("busy")
    with model.held():
        response = await client.responses.create(model=held, input=said, conversation=busy.id, background=True)
        with pytest.raises(openai.ConflictError):
            await client.conversations.items.create(busy.id, items=[{"role": "user", "content": "Wait"}])
        await client.responses.cancel(response.id)


@pytest.mark.slow(covered_by="test_a_stream_ends_with_the_response_and_is_resumed_in_its_middle")
async def test_the_javascript_client_works_as_it_comes(api: Api, stack: RunningStack) -> None:
    node, module = await asyncio.to_thread(node_module, "openai", "index.mjs")
    asked = {"apiKey": stack.api_key, "baseURL": f"{stack.base_url}/openai/v1", "model": await api.agent()}
    process = await asyncio.create_subprocess_exec(
        node, str(JAVASCRIPT), module, json.dumps(asked), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    async with asyncio.timeout(120):
        said, problem = await process.communicate()
    assert process.returncode == 0, problem.decode()
    told = json.loads(said)
    numbers = told.pop("numbers")
    assert numbers[0] > 2
    assert numbers == sorted(set(numbers))
    assert told == {
        **dict.fromkeys(("text", "final", "again", "chat", "streamed"), TEXT),
        **{"refused": "prompt", "missing": True, "strange": True},
    }
