"""The same write, sent again with the same `Idempotency-Key`: one effect, one outcome."""

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest

from tests.e2e.api import Api, check_error, configuration, unique
from tests.e2e.event_log import EventLog, count_by_subject
from tests.e2e.held_model import HeldModel
from tests.support.waiting import until

FORMS: dict[str, dict[str, str]] = {
    "blocking": {},
    "background": {"prefer": "respond-async"},
    "streamed": {"accept": "text/event-stream"},
}


async def execute(api: Api, session: str, text: str, key: str, form: str) -> str:
    """The turn's id, however the reply looks."""
    if form == "streamed":
        events = [event async for event in api.events(session, text, idempotency_key=key)]
        assert events[-1].name == "turn.completed"
        return str(events[-1].data["turn_id"])
    reply = await api.execute(session, text, idempotency_key=key, **FORMS[form])
    assert reply.status_code == (202 if form == "background" else 200), reply.text
    return str(reply.json()["turn_id"])


@pytest.mark.parametrize("again", FORMS)
@pytest.mark.parametrize("first", FORMS)
async def test_a_repeated_execute_is_the_same_turn(api: Api, model: HeldModel, first: str, again: str) -> None:
    session = await api.session("openai:stub-echo")
    text, key = unique("once"), unique("key")
    turn = await execute(api, session, text, key, first)
    assert await execute(api, session, text, key, again) == turn
    assert (await api.turn_ended(session, turn))["status"] == "completed"
    assert await execute(api, session, text, key, again) == turn
    assert [message["content"] for message in await api.messages(session)] == [text, f"You said: {text}"]
    assert len(model.asked(text)) == 1


async def test_a_blocking_repeat_gets_the_same_bytes(api: Api) -> None:
    session, key, label = await api.session(), unique("key"), unique("label")
    first = await api.execute(session, "once", idempotency_key=key, x_correlation_id=label)
    again = await api.execute(session, "once", idempotency_key=key, x_correlation_id=unique("another"))
    assert again.content == first.content
    # A repeat is part of the first request's story.
    assert again.headers["x-correlation-id"] == label


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


async def _asked(model: HeldModel, text: str) -> bool:
    return bool(model.asked(text))


async def test_a_failed_turn_stays_failed(api: Api, model: HeldModel) -> None:
    session = await api.session("openai:stub-error-400")
    text, key = unique("failing"), unique("key")
    for _ in range(2):
        check_error(await api.execute(session, text, idempotency_key=key), 502, "model_error")
    assert len(model.asked(text)) == 1


async def test_json_and_yaml_of_the_same_meaning_are_the_same_body(api: Api) -> None:
    session, key = await api.session(), unique("key")
    first = await api.execute(session, "hello", idempotency_key=key)
    headers = {"content-type": "application/yaml", "idempotency-key": key}
    again = await api.http.post(f"/runtime/{session}/execute/", content="content:   hello\n", headers=headers)
    assert again.content == first.content


async def published(event_log: EventLog, correlation_id: str, event: str) -> Counter[str]:
    return count_by_subject(await event_log.read([correlation_id]), event)


@pytest.mark.parametrize("at_once", [False, True])
async def test_repeated_creations_make_one(api: Api, event_log: EventLog, at_once: bool) -> None:
    name = unique("made")
    body, headers = {**configuration(), "name": name}, {"idempotency-key": name, "x-correlation-id": name}
    for path, event in (("/sessions/", "session.created"), ("/agent/", "agent.created")):

        async def create(path: str = path) -> httpx.Response:
            return await api.http.post(path, json=body, headers=headers)

        if at_once:
            replies = await asyncio.gather(*(create() for _ in range(5)))
        else:
            replies = [await create() for _ in range(3)]
        assert {reply.status_code for reply in replies} == {201}
        assert len({reply.content for reply in replies}) == 1
        # A session's event is sent with that of its first turn, or a moment after its creation.
        created = await until(lambda name=name, event=event: published(event_log, name, event))
        assert list(created.values()) == [1]


async def test_an_idempotency_key_of_another_company(as_alice: Api, as_mallory: Api) -> None:
    key = {"idempotency-key": unique("key"), "x-correlation-id": unique("label")}
    hers = await as_alice.http.post("/sessions/", json=configuration(), headers=key)
    theirs = await as_mallory.http.post("/sessions/", json=configuration(), headers=key)
    assert (hers.status_code, theirs.status_code) == (201, 201)
    assert hers.json()["session_id"] != theirs.json()["session_id"]
