"""Turns that are cancelled, by their caller or with their session."""

import asyncio

import httpx

from tests.e2e.api import Api, check_error, unique
from tests.e2e.event_log import ENDS, EventLog, count_by_subject
from tests.e2e.held_model import HeldModel
from tests.support.waiting import until


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


async def test_cancelling_a_turn_that_waits(api: Api, model: HeldModel) -> None:
    session = await api.session("openai:stub-hold-echo")
    first, second, third = (unique("line") for _ in range(3))
    with model.held():
        running = asyncio.create_task(api.execute(session, first))
        await until(lambda: _asked(model, first))
        waiting = await api.in_background(session, second)
        behind = asyncio.create_task(api.execute(session, third))
        reply = await api.http.post(f"/runtime/{session}/turns/{waiting['turn_id']}/cancel/")
        assert reply.status_code == 200
    assert (await running).status_code == 200
    assert (await behind).json()["response"]["content"] == f"You said: {third}"
    assert not model.asked(second)
    assert (await api.turn(session, waiting["turn_id"]))["status"] == "cancelled"


async def test_cancelling_while_the_turn_completes(api: Api, event_log: EventLog) -> None:
    """Both sides get the same answer, however the race ends."""
    sessions = await api.sessions(12, "openai:stub-slow-30")
    labels = [unique("race") for _ in sessions]

    async def race(session: str, label: str) -> tuple[httpx.Response, httpx.Response, str]:
        accepted = await api.in_background(session, label, x_correlation_id=label, idempotency_key=label)
        turn = accepted["turn_id"]
        cancelled, reply = await asyncio.gather(
            api.http.post(f"/runtime/{session}/turns/{turn}/cancel/"),
            api.execute(session, label, idempotency_key=label),
        )
        return cancelled, reply, turn

    for cancelled, reply, turn in await asyncio.gather(*map(race, sessions, labels)):
        assert (cancelled.status_code, reply.status_code) in {(200, 409), (409, 200)}, (cancelled.text, reply.text)
        session = sessions[labels.index(reply.headers["x-correlation-id"])]
        status = "completed" if reply.status_code == 200 else "cancelled"
        assert (await api.turn_ended(session, turn))["status"] == status
    ends = count_by_subject(await event_log.ended(labels), *ENDS)
    assert set(ends.values()) == {1}


async def test_deleting_a_session_with_a_running_turn(api: Api, model: HeldModel, event_log: EventLog) -> None:
    session = await api.session("openai:stub-hold")
    label, waiting = unique("deleted"), unique("deleted")
    with model.held():
        callers = [asyncio.create_task(api.execute(session, label, x_correlation_id=label))]
        await until(lambda: _asked(model, label))
        callers.append(asyncio.create_task(api.execute(session, waiting, x_correlation_id=waiting)))
        await _turn_of(event_log, waiting, "turn.queued")
        deleted = await api.http.delete(f"/sessions/{session}/")
        assert (deleted.status_code, deleted.content) == (204, b"")
        for caller in callers:
            check_error(await caller, 409, "conflict_error")
    for path in (f"/sessions/{session}/", f"/runtime/{session}/messages/"):
        check_error(await api.http.get(path), 404, "not_found_error")
    check_error(await api.execute(session, "anyone?"), 404, "not_found_error")
    check_error(await api.http.delete(f"/sessions/{session}/"), 404, "not_found_error")
    events = await event_log.ended([label, waiting])
    assert set(count_by_subject(events, *ENDS).values()) == {1}
    assert {event.name for event in events if event.name in ENDS} == {"turn.cancelled"}


async def _asked(model: HeldModel, *texts: str) -> bool:
    return all(model.asked(text) for text in texts)


async def _turn_of(log: EventLog, label: str, name: str = "turn.started") -> str:
    async def look() -> str | None:
        return next((event.subject for event in await log.read([label]) if event.name == name), None)

    return await until(look)
