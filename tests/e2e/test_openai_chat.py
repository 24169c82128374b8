"""OpenAI's chat completions, files and vector stores, used by OpenAI's own client as it comes."""

from __future__ import annotations

import base64
import struct
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.e2e.api import Api, unique
from tests.e2e.running_stack import RunningStack
from tests.e2e.test_openai_responses import client_of
from tests.servers.model_stub import TEXT
from tests.support.scans import png
from tests.support.waiting import until

BUILTIN = "builtin:extractive"
BITMAP = b"BM" + struct.pack("<IHHIIiiHHIIiiII", 58, 0, 0, 54, 40, 1, 1, 1, 24, 0, 4, 0, 0, 0, 0) + b"\0\0\xff\0"
HELLO: Any = [{"role": "user", "content": "Hello"}]


def picture(url: str) -> Any:
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.fixture
async def client(stack: RunningStack) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(stack, stack.api_key) as own:
        yield own


async def test_a_completion_is_a_turn_of_a_session_that_nobody_lists(api: Api, client: AsyncOpenAI) -> None:
    model = await api.agent()
    assert model in {each.id async for each in client.models.list()}
    assert (await client.models.retrieve(BUILTIN)).owned_by == "builtin"
    messages: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "Two."},
        *HELLO,
    ]
    raw = await client.chat.completions.with_raw_response.create(model=model, messages=messages, temperature=0.5)
    completion = raw.parse()
    assert (completion.choices[0].message.content, completion.choices[0].finish_reason) == (TEXT, "stop")
    assert completion.usage.total_tokens > 0
    session, turn = raw.headers["x-session-id"], raw.headers["x-turn-id"]
    assert completion.id == f"chatcmpl_{turn}"
    history = (await api.http.get(f"/runtime/{session}/messages/")).json()["messages"]
    assert [each["content"] for each in history] == ["One?", "Two.", "Hello", TEXT]
    listed = (await api.http.get("/sessions/", params={"limit": 50})).json()["sessions"]
    assert session not in {each["session_id"] for each in listed}
    stream = await client.chat.completions.create(
        model=model, messages=messages, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == TEXT
    assert chunks[-1].usage is not None


async def test_images_in_messages_reach_a_model_that_sees(api: Api, client: AsyncOpenAI) -> None:
    """They are artifacts of the session, the conversation's as well, and nothing of them is in the turn."""
    model = await api.agent("openai:stub-echo")
    scan, drawn = (base64.b64encode(content).decode() for content in (png(), BITMAP))
    messages: Any = [
        {"role": "user", "content": [picture(f"data:image/bmp;base64,{drawn}")]},
        {"role": "assistant", "content": "A dot."},
        {"role": "user", "content": [{"type": "text", "text": "And?"}, picture(f"data:image/jpeg;base64,{scan}")]},
    ]
    raw = await client.chat.completions.with_raw_response.create(model=model, messages=messages)
    said = str(raw.parse().choices[0].message.content)
    assert f"data:image/png;base64,{scan}" in said
    session = raw.headers["X-Session-ID"]
    listed = (await api.http.get(f"/sessions/{session}/artifacts/")).json()["artifacts"]
    assert {each["content_type"] for each in listed} == {"image/png", "image/bmp"}
    kept = await api.messages(session)
    assert [block["type"] for block in kept[0]["content_blocks"]] == ["file"]
    assert [block["type"] for block in kept[2]["content_blocks"]] == ["text", "file"]
    assert scan not in str(kept[:3]), "but for the reply, which repeats it"
    events = await client.chat.completions.create(model=model, messages=messages, stream=True)
    streamed = "".join([chunk.choices[0].delta.content or "" async for chunk in events if chunk.choices])
    assert f"data:image/png;base64,{scan}" in streamed
    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(model=BUILTIN, messages=messages)


async def test_a_vector_store_answers_from_what_was_uploaded(client: AsyncOpenAI) -> None:
    text = b"The ferry to Skarholm leaves at a quarter past nine. A bicycle travels for three crowns."
    stored = await client.files.create(file=("fares.md", text), purpose="assistants")
    assert (await client.files.content(stored.id)).read() == text
    assert stored.id in {each.id async for each in client.files.list(limit=2)}
    store = await client.vector_stores.create(name=unique("fares"))
    attached = await client.vector_stores.files.create_and_poll(
        vector_store_id=store.id, file_id=stored.id, poll_interval_ms=200
    )
    assert attached.status == "completed"
    more = [await client.files.create(file=(f"{n}.md", b"Crossing %d." % n), purpose="user_data") for n in range(3)]
    batch = await client.vector_stores.file_batches.create_and_poll(
        store.id, file_ids=[each.id for each in more], poll_interval_ms=200
    )
    assert (batch.status, batch.file_counts.completed) == ("completed", 3)
    found = await client.vector_stores.search(
        store.id, query="What does a bicycle cost?", filters={"type": "eq", "key": "file_id", "value": stored.id}
    )
    assert "three crowns" in found.data[0].content[0].text
    listed = [each.id async for each in client.vector_stores.files.list(store.id, limit=2, order="asc")]
    assert listed == [stored.id, *(each.id for each in more)]
    await client.vector_stores.files.delete(more[0].id, vector_store_id=store.id)

    async def is_out() -> bool:
        now = await client.vector_stores.retrieve(store.id)
        return now.status == "completed" and now.file_counts.total == 3

    await until(is_out)
    assert (await client.vector_stores.delete(store.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await client.vector_stores.retrieve(store.id)
    await client.files.delete(stored.id)
    with pytest.raises(openai.NotFoundError):
        await client.files.retrieve(stored.id)
    broken = await client.vector_stores.create()
    with pytest.raises(openai.BadRequestError):
        await client.vector_stores.files.create(broken.id, file_id=stored.id)
    with pytest.raises(openai.BadRequestError):
        await client.files.create(file=("a.exe", b"MZ"), purpose="fine-tune")
