"""Streams of turns that break off in the middle, and readers who come late: everybody ends with the same text."""

import asyncio

import pytest

from tests.e2e.api import Api, unique
from tests.e2e.held_model import HeldModel
from tests.e2e.running_stack import RunningStack
from tests.e2e.turn_reader import Reader
from tests.support.waiting import until

SLOW = "openai:stub-slow-6000"


async def begun(reader: Reader) -> None:
    async def some_text() -> bool:
        return len(reader.events) > 3

    await until(some_text)


async def test_who_joins_late_has_the_whole_text(api: Api) -> None:
    first = Reader(api, await api.session(SLOW))
    executing = asyncio.create_task(first.execute("tell me"))
    await begun(first)
    late, again = (Reader(api, first.session, first.turn_id) for _ in range(2))
    again.last_id = first.events[2].id
    again.texts.update({(1, 1): "".join(e.data["text"] for e in first.events[:3] if "delta" in e.name)})
    await asyncio.gather(late.follow(), again.follow(), executing)
    for reader in (first, late, again):
        assert reader.check() == first.events[-1].data
        assert reader.breaks == 0
    assert late.names == first.names == ["turn.started", "turn.completed"]
    ids = {event.name: event.id for event in first.events if event.name in late.names}
    assert {event.name: event.id for event in late.events if event.name in late.names} == ids
    replayed = Reader(api, first.session, first.turn_id)
    await replayed.follow()
    assert replayed.check() == first.events[-1].data
    after_the_end = await api.http.get(
        f"/runtime/{first.session}/turns/{first.turn_id}/events/", headers={"last-event-id": first.last_id}
    )
    assert after_the_end.status_code == 204


async def test_a_turn_with_tools_that_nobody_streamed_is_replayed_and_followed(api: Api) -> None:
    session = await api.session("openai:stub-tool-slow-1500", tools=["calculator"])
    reader = Reader(api, session, (await api.in_background(session, "what is it?"))["turn_id"])
    await reader.follow()
    reader.check()
    assert reader.names == ["turn.started", "turn.tool_call.started", "turn.tool_call.completed", "turn.completed"]


@pytest.mark.rule(13)
@pytest.mark.parametrize(
    "part",
    [
        pytest.param("gateway", marks=pytest.mark.crash("gateway")),
        pytest.param("runtime", marks=[pytest.mark.slow, pytest.mark.crash("runtime")]),
        pytest.param("kafka", marks=[pytest.mark.slow, pytest.mark.crash("Kafka")]),
        pytest.param("postgres", marks=[pytest.mark.slow, pytest.mark.crash("PostgreSQL")]),
    ],
)
async def test_a_stream_goes_on_when_a_part_is_killed_in_its_middle(
    breakable: RunningStack, api: Api, model: HeldModel, part: str
) -> None:
    # What comes after the middle takes so long that some of it comes while the server is away.
    session = await api.session(f"openai:stub-halt-slow-{15000 if part in ('kafka', 'postgres') else 6000}")
    with model.held():
        reader = Reader(api, session)
        executing = asyncio.create_task(reader.execute(unique("killed")))
        await until(lambda: reader.texts)
        late = Reader(api, session, reader.turn_id)
        following = asyncio.create_task(late.follow())
        await until(lambda: late.texts)
        killed = await asyncio.to_thread(breakable.kill, part)
    await asyncio.gather(executing, following)
    for each in (reader, late):
        each.check()
    assert (reader.breaks > 0) is (part == "gateway") or part in ("kafka", "postgres")
    if part == "runtime":
        assert reader.names == late.names == ["turn.started", "turn.restarted", "turn.completed"]
        assert max(reader.texts) == (2, 1)
    await asyncio.to_thread(breakable.wait_replaced, part, killed)
    replayed = Reader(api, session, reader.turn_id)
    await replayed.follow()
    assert replayed.check() == reader.events[-1].data
