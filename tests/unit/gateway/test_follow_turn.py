"""Following a turn that somebody else began, or that a broken connection left."""

import asyncio
from typing import Any

import httpx
import pytest

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identifiers import new_id
from libs.contracts.messages import Event, Received
from libs.contracts.resources.turns import CancelTurnAccepted, ExecuteTurn
from tests.support.gateway import Gateway, Sent, error_of
from tests.support.turn_events import cancelled, completed, delta, failed, started
from tests.support.waiting import elapse, until
from tests.unit.gateway.test_execute import PATH, SESSION, STREAM, events_in, identified, queued

pytestmark = pytest.mark.virtual_time


def events_path(turn_id: str, session_id: str = SESSION) -> str:
    return f"/runtime/{session_id}/turns/{turn_id}/events/"


async def begin(public: Gateway, *events: Any) -> Sent:
    """A turn that runs, of which these events were published while nobody followed it."""
    asked = asyncio.create_task(public.client.post(PATH, json={"content": "Hi"}, headers={"Prefer": "respond-async"}))
    sent = await public.until_sent(len(public.bus.sent) + 1)
    for event in (started, *events):
        public.bus.publish(sent, event(sent))
    assert (await asked).status_code == 202
    return sent


async def follow(public: Gateway, sent: Sent, after: str | None = None) -> "asyncio.Task[httpx.Response]":
    """Returns when the stream listens."""
    headers = {} if after is None else {"Last-Event-ID": after}
    following = asyncio.create_task(public.client.get(events_path(sent.command_id), headers=headers))
    await until(lambda: public.upstreams.asked_paths("events" if after is None else "watch"))
    await elapse(0.1)
    return following


async def test_who_comes_late_sees_the_turn_from_its_start_to_its_end(public: Gateway) -> None:
    sent = await begin(public, lambda sent: delta(sent, "Hel"))
    following = await follow(public, sent)
    # The worker sends the text of the step again.
    public.bus.publish(sent, delta(sent, "Hello"))
    public.bus.publish(sent, completed(sent))
    response = await following
    assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream")
    assert [(event_id, name) for event_id, name, _ in identified(response.text)] == [
        ("1.1.1.0", "turn.started"),
        ("1.1.1.5", "turn.output_text.delta"),
        ("1.1.1.6", "turn.output_text.delta"),
        ("1.1.1.6.d", "turn.output_text.done"),
        ("2.1.1.0", "turn.completed"),
    ]
    assert public.bus.waiters == {}


@pytest.mark.parametrize("end", [failed, cancelled])
async def test_a_turn_that_did_not_complete_is_replayed_to_its_end(public: Gateway, end: Any) -> None:
    sent = await begin(public, end)
    public.bus.recorded[sent.command_id] += [
        received(public, sent, CancelTurnAccepted(session_id=SESSION, turn_id=sent.command_id), 3)
    ]
    replayed = events_in((await public.client.get(events_path(sent.command_id))).text)
    assert [name for name, _ in replayed] == ["turn.started", f"turn.{end.__name__}"]
    last = await public.client.get(events_path(sent.command_id), headers={"Last-Event-ID": "2.1.1.0"})
    assert last.status_code == 204


def received(public: Gateway, sent: Sent, event: Event, sequence: int) -> Received:
    public.bus.publish(sent, event)
    found = public.bus.recorded[sent.command_id].pop()
    assert found.envelope.sequence == sequence
    return found


async def test_the_owner_is_asked_first_and_the_log_for_what_it_has_deleted(public: Gateway) -> None:
    sent = await begin(public, completed)
    recorded = public.bus.recorded[sent.command_id]

    async def away(*_: object, **__: object) -> Any:
        raise ServiceUnavailable("the connection is lost")

    log, public.timeline.turn = public.timeline.turn, away  # type: ignore[method-assign]
    replayed = events_in((await public.client.get(events_path(sent.command_id))).text)
    assert [name for name, _ in replayed][-1] == "turn.completed"
    public.timeline.turn = log  # type: ignore[method-assign]
    for event in recorded:
        envelope = event.envelope
        public.timeline.add(
            id=envelope.id, type=envelope.type[len("aes.runtime.") : -len(".v1")], source="/aes/runtime",
            subject=envelope.subject, sequence=envelope.sequence, data=event.payload, company_id=envelope.company_id,
        )  # fmt: skip
    public.bus.deleted = len(recorded) - 1
    again = events_in((await public.client.get(events_path(sent.command_id))).text)
    assert again == replayed
    # Without the log its end is all that is left.
    public.timeline.turn = away  # type: ignore[method-assign]
    rest = events_in((await public.client.get(events_path(sent.command_id))).text)
    assert rest == replayed[1:]


async def test_events_that_the_bus_lost_are_fetched(public: Gateway) -> None:
    streaming = asyncio.create_task(public.client.post(PATH, json={"content": "Hi"}, headers=STREAM))
    sent = await public.until_sent()
    public.bus.publish(sent, queued(sent))
    lost = {**public.bus.waiters}
    public.bus.waiters.clear()
    public.bus.publish(sent, started(sent))
    public.bus.waiters.update(lost)
    # Shown once the start is: it was asked for.
    public.bus.publish(sent, delta(sent, "Hel"))
    await until(lambda: public.bus.watched)
    public.bus.publish(sent, completed(sent))
    names = [name for name, _ in events_in((await streaming).text)]
    assert names[:3] == ["turn.queued", "turn.started", "turn.output_text.delta"]
    assert names[-1] == "turn.completed"


@pytest.mark.parametrize("given", ["nonsense", "1.1.1", "9.1.1.0"])
async def test_what_is_no_id_of_this_turn_is_refused(public: Gateway, given: str) -> None:
    sent = await begin(public)
    response = await public.client.get(events_path(sent.command_id), headers={"Last-Event-ID": given})
    assert (response.status_code, error_of(response)["type"]) == (400, "invalid_request_error")
    assert public.bus.waiters == {}


async def test_an_unknown_turn_is_not_found_and_an_empty_id_is_none(public: Gateway) -> None:
    for path in (events_path(new_id()), events_path("nonsense"), events_path(new_id(), "nonsense")):
        assert (await public.client.get(path)).status_code == 404
    sent = await begin(public, completed)
    replayed = await public.client.get(events_path(sent.command_id), headers={"Last-Event-ID": ""})
    assert len(events_in(replayed.text)) == 4


async def test_a_reader_who_falls_behind_is_told_and_dropped(public: Gateway) -> None:
    sent = await begin(public)
    following = await follow(public, sent, "1.1.1.0")
    for number in range(2100):
        public.bus.publish(sent, delta(sent, "x", number))
    response = await following
    assert response.text.split("\n\n")[-2].startswith("event: error\ndata: ")
    assert "read too slowly" in response.text
    assert isinstance(sent.command, ExecuteTurn)


async def test_a_runtime_that_does_not_answer_is_a_503_before_the_stream_begins(public: Gateway) -> None:
    sent = await begin(public)
    public.upstreams.down = True
    response = await public.client.get(events_path(sent.command_id))
    assert (response.status_code, error_of(response)["type"]) == (503, "service_unavailable")
