"""Turns that wait for answers from outside: what callers and readers of their streams see."""

import asyncio
from typing import Any

import orjson
import pytest

from libs.contracts.resources.turns import BlockedBy, TurnQueued
from services.gateway.use_cases.reading.feed_reader import KEEP_ALIVE_SECONDS
from tests.support.gateway import Gateway, Sent
from tests.support.turn_events import action_of, called, completed, delta, made, required, resolved, started
from tests.support.waiting import elapse
from tests.unit.gateway.test_execute import PATH, SESSION, STREAM, events_in

pytestmark = pytest.mark.virtual_time
KEY = {"Idempotency-Key": "once"}
BODY = {"content": "Refund order 4711"}


def waiting(sent: Sent) -> list[Any]:
    return [started(sent), called(sent), required(sent)]


async def test_a_blocking_call_is_answered_as_soon_as_its_turn_is_waiting(public: Gateway) -> None:
    public.bus.upstream = lambda sent: [*waiting(sent), required(sent, "c2", "tool_result")]
    response = await public.client.post(PATH, json=BODY)
    sent = public.bus.sent[0]
    assert response.status_code == 202
    assert response.headers["location"] == f"/api/v1/runtime/{SESSION}/turns/{sent.command_id}/"
    assert response.json()["status"] == "waiting"
    assert response.json()["required_actions"] == [
        orjson.loads(required(sent).action.model_dump_json()),
        orjson.loads(required(sent, "c2", "tool_result").action.model_dump_json()),
    ]
    assert public.bus.waiters == {}


async def test_a_repeat_is_202_while_the_turn_is_waiting_and_200_afterwards(public: Gateway) -> None:
    public.bus.upstream = waiting
    first = await public.client.post(PATH, json=BODY, headers=KEY)
    sent = public.bus.sent[0]
    again = await public.client.post(PATH, json=BODY, headers=KEY)
    background = await public.client.post(PATH, json=BODY, headers={**KEY, "Prefer": "respond-async"})
    assert {answer.status_code for answer in (first, again, background)} == {202}
    assert first.json() == again.json() == background.json()
    public.bus.publish(sent, resolved(sent))
    following = asyncio.create_task(public.client.post(PATH, json=BODY, headers=KEY))
    await elapse(1)
    assert not following.done(), "the turn runs again"
    public.bus.publish(sent, completed(sent))
    assert (await following).status_code == 200
    assert (await public.client.post(PATH, json=BODY, headers=KEY)).content == completed(sent).encode() + b"\n"
    assert len(public.bus.sent) == 1


async def test_in_the_background_the_answer_does_not_wait_for_the_wait(public: Gateway) -> None:
    public.bus.upstream = waiting
    response = await public.client.post(PATH, json=BODY, headers={"Prefer": "respond-async"})
    assert (response.status_code, response.json()["status"]) == (202, "running")


def behind(sent: Sent) -> list[Any]:
    """The turn is queued behind one that waits."""
    blocking = BlockedBy(turn_id="earlier", required_actions=[required(sent).action])
    return [
        TurnQueued(session_id=SESSION, turn_id=sent.command_id, position=1, user_message_id="m1", blocked_by=blocking)
    ]


async def test_a_call_behind_a_waiting_turn_is_answered_at_once_with_what_that_one_needs(public: Gateway) -> None:
    public.bus.upstream = behind
    first = await public.client.post(PATH, json=BODY, headers=KEY)
    sent = public.bus.sent[0]
    again = await public.client.post(PATH, json=BODY, headers=KEY)
    background = await public.client.post(PATH, json=BODY, headers={**KEY, "Prefer": "respond-async"})
    assert {answer.status_code for answer in (first, again, background)} == {202}
    assert first.json() == again.json() == background.json()
    assert (first.json()["turn_id"], first.json()["status"]) == (sent.command_id, "queued")
    blocking = {"turn_id": "earlier", "required_actions": [orjson.loads(required(sent).action.model_dump_json())]}
    assert first.json()["blocked_by"] == blocking


async def test_an_action_that_was_resolved_meanwhile_ends_no_call(public: Gateway) -> None:
    public.bus.upstream = lambda sent: [*waiting(sent), resolved(sent), completed(sent)]
    response = await public.client.post(PATH, json=BODY)
    assert (response.status_code, response.content) == (200, completed(public.bus.sent[0]).encode() + b"\n")


async def test_the_event_is_enough_when_the_runtime_cannot_be_asked(public: Gateway) -> None:
    public.bus.upstream = waiting
    public.upstreams.down = True
    response = await public.client.post(PATH, json=BODY)
    assert (response.status_code, response.json()["status"]) == (202, "waiting")
    assert [action["action_id"] for action in response.json()["required_actions"]] == [action_of("c1")]


async def test_a_turn_whose_event_was_lost_is_known_to_wait_at_the_end(public: Gateway) -> None:
    asked = asyncio.create_task(public.client.post(PATH, json=BODY, headers={"Prefer": "wait=1"}))
    sent = await public.until_sent()
    public.bus.publish(sent, started(sent))
    await elapse(0.5)
    public.bus.lose(sent, called(sent))
    public.bus.lose(sent, required(sent))
    response = await asked
    assert (response.json()["status"], len(response.json()["required_actions"])) == ("waiting", 1)


async def test_a_stream_shows_the_wait_and_stays_open(public: Gateway) -> None:
    streaming = asyncio.create_task(public.client.post(PATH, json=BODY, headers=STREAM))
    sent = await public.until_sent()
    for event in waiting(sent):
        public.bus.publish(sent, event)
    await elapse(9.5 * KEEP_ALIVE_SECONDS)
    assert not streaming.done()
    public.bus.publish(sent, resolved(sent))
    public.bus.publish(sent, made(sent))
    public.bus.publish(sent, delta(sent, "Done", step=2))
    public.bus.publish(sent, completed(sent, "Done."))
    response = await streaming
    assert response.text.count(": keep-alive") == 9
    shown = events_in(response.text)
    assert [name for name, _ in shown] == [
        "turn.started",
        "turn.tool_call.started",
        "turn.action_required",
        "turn.action_resolved",
        "turn.tool_call.completed",
        "turn.output_text.delta",
        "turn.output_text.delta",
        "turn.output_text.done",
        "turn.completed",
    ]
    assert shown[2][1]["action"]["tool_call"] == {"id": "c1", "name": "shop.refund", "arguments": {"order": 4711}}
    assert "".join(data["text"] for name, data in shown if name.endswith("delta")) == "Done."


async def test_an_event_that_was_lost_before_a_wait_is_found_in_the_silence(public: Gateway) -> None:
    streaming = asyncio.create_task(public.client.post(PATH, json=BODY, headers=STREAM))
    sent = await public.until_sent()
    public.bus.publish(sent, started(sent))
    await elapse(0.5)
    public.bus.lose(sent, called(sent))
    public.bus.lose(sent, required(sent))
    asked = len(public.upstreams.asked_paths("events"))
    await elapse(2.5 * KEEP_ALIVE_SECONDS)
    assert len(public.upstreams.asked_paths("events")) > asked, "it looks in the silence, not at the end only"
    public.upstreams.down = True
    await elapse(2.5 * KEEP_ALIVE_SECONDS)
    public.upstreams.down = False
    public.bus.publish(sent, completed(sent, ""))
    names = [name for name, _ in events_in((await streaming).text)]
    assert names == ["turn.started", "turn.tool_call.started", "turn.action_required", "turn.completed"]
