"""Processes killed with -9 in the middle of their work: nothing is lost, nothing happens twice."""

import asyncio
import signal
from collections.abc import Sequence

import httpx
import pytest

from libs.tracing import trace_id_of
from tests.e2e.api import PATIENT, Api, configuration, unique
from tests.e2e.event_log import ENDS, BusEvent, EventLog, count_by_subject
from tests.e2e.held_model import HeldModel, tool_results
from tests.e2e.running_stack import RunningStack
from tests.support.otlp_receiver import OtlpReceiver, SeenSpan
from tests.support.waiting import until

PLAIN, WITH_TOOL = "openai:stub-hold", "openai:stub-hold-tool"


class Load:
    """Turns whose model holds its final answers back, so that whatever is killed is killed in their middle."""

    def __init__(self, api: Api, model: HeldModel) -> None:
        self.api, self.model = api, model
        self.texts: list[str] = []
        self.sessions: list[str] = []
        self.callers: list[asyncio.Task[httpx.Response]] = []

    async def start(self, plain: int, with_tool: int = 0, *, careful: bool = False) -> None:
        """Returns when the model holds back an answer to every turn; ``careful`` callers repeat with a key."""
        self.sessions = await self.api.sessions(plain, PLAIN)
        self.sessions += await self.api.sessions(with_tool, WITH_TOOL, tools=["calculator"])
        self.texts = [unique("turn") for _ in self.sessions]
        execute = self._careful if careful else self._trusting
        self.callers = [asyncio.create_task(execute(*turn)) for turn in zip(self.sessions, self.texts, strict=True)]

        async def held() -> bool:
            called = all(any(map(tool_results, self.model.asked(text))) for text in self.texts[plain:])
            return called and all(map(self.model.asked, self.texts))

        await until(held)

    async def _trusting(self, session_id: str, text: str) -> httpx.Response:
        return await self.api.execute(session_id, text, x_correlation_id=text, prefer=PATIENT)

    async def _careful(self, session_id: str, text: str) -> httpx.Response:
        headers = {"idempotency-key": text, "x-correlation-id": text, "prefer": PATIENT}
        path = f"/runtime/{session_id}/execute/"
        return await self.api.persistently("POST", path, json={"content": text}, headers=headers)

    async def check(self, log: EventLog) -> list[BusEvent]:
        """Every caller got an answer, every history holds it once, every turn ended once. Returns the events."""
        replies = await asyncio.gather(*self.callers)
        assert [reply.status_code for reply in replies] == [200] * len(replies), [r.text for r in replies]
        histories = await asyncio.gather(*(self.api.messages(session, patient=True) for session in self.sessions))
        for reply, text, history in zip(replies, self.texts, histories, strict=True):
            assert [(message["role"], message["content"]) for message in history] == [
                ("user", text),
                ("assistant", reply.json()["response"]["content"]),
            ]
            assert history[1]["id"] == reply.json()["message_id"]
        events = await log.ended(self.texts)
        turns = [reply.json()["turn_id"] for reply in replies]
        assert count_by_subject(events, *ENDS) == dict.fromkeys(turns, 1)
        assert count_by_subject(events, "turn.completed") == dict.fromkeys(turns, 1)
        return events


def check_sequences(events: Sequence[BusEvent]) -> None:
    """The events of a turn are numbered without gaps, and keyed by their correlation id."""
    for subject in {event.subject for event in events}:
        numbers = [event.sequence for event in events if event.subject == subject]
        assert numbers == list(range(1, len(numbers) + 1))
    assert all(event.key == event.correlation_id for event in events)


@pytest.mark.rule(3)
@pytest.mark.crash("runtime")
async def test_runtime_killed_in_the_middle_of_20_turns(
    breakable: RunningStack, api: Api, model: HeldModel, event_log: EventLog, spans: OtlpReceiver
) -> None:
    load = Load(api, model)
    with model.held():
        await load.start(plain=12, with_tool=8)
        taken_in = [await _span(spans, text, "process runtime-commands") for text in load.texts]
        killed = breakable.kill("runtime")
        await asyncio.to_thread(breakable.wait_replaced, "runtime", killed)
        # A turn that was taken over asks the model again.
        await until(lambda: _all_asked_again(load))
    events = await load.check(event_log)
    check_sequences(events)
    restarted = count_by_subject(events, "turn.restarted")
    assert len(restarted) == 20
    assert set(restarted.values()) == {1}
    for text in load.texts[12:]:
        own = [event for event in events if event.correlation_id == text]
        for name in ("turn.tool_call.started", "turn.tool_call.completed"):
            assert [event.name for event in own].count(name) == 1
        # The answer that called the tool was recorded: the model is not asked for it again.
        assert [tool_results(body) for body in model.asked(text)] == [0, 1, 1]
    replies = [(await caller).json() for caller in load.callers]
    assert [len(reply["response"]["tool_calls"]) for reply in replies] == [0] * 12 + [1] * 8
    assert {reply["response"]["tool_calls"][0]["output"] for reply in replies[12:]} == {"6*7 = 42"}
    for text, before in zip(load.texts, taken_in, strict=True):
        after = await _span(spans, text, "invoke_agent")
        assert (after.trace_id, after.parent_id) == (before.trace_id, before.span_id), "it is the same trace"
        assert after.process != before.process
    assert "\naes_runtime_turns_taken_over_total 20.0\n" in breakable.metrics("runtime")


async def _span(spans: OtlpReceiver, correlation_id: str, name: str) -> SeenSpan:
    async def look() -> SeenSpan | None:
        return next((span for span in spans.traces[trace_id_of(correlation_id)] if span.name == name), None)

    return await until(look)


async def _all_asked_again(load: Load) -> bool:
    return all(sum(map(tool_results, load.model.asked(text))) >= 2 for text in load.texts[12:]) and all(
        len(load.model.asked(text)) >= 2 for text in load.texts[:12]
    )


@pytest.mark.crash("registry")
async def test_registry_killed_with_agents_being_created(
    breakable: RunningStack, api: Api, event_log: EventLog
) -> None:
    names = [unique("agent") for _ in range(8)]

    async def create(name: str) -> httpx.Response:
        body, headers = {**configuration(), "name": name}, {"idempotency-key": name, "x-correlation-id": name}
        return await api.persistently("POST", "/agent/", json=body, headers=headers)

    with breakable.stopped("registry"):
        callers = [asyncio.create_task(create(name)) for name in names]
        await until(lambda: _all_on_the_bus(event_log, names, "registry-commands"))
        killed = breakable.kill("registry")
    await asyncio.to_thread(breakable.wait_replaced, "registry", killed)
    replies = await asyncio.gather(*callers)
    assert {reply.status_code for reply in replies} == {201}
    repeated = await asyncio.gather(*map(create, names))
    assert [reply.content for reply in repeated] == [reply.content for reply in replies]
    stored = [agent for agent in (await api.http.get("/agent/")).json() if agent["name"] in names]
    assert sorted(agent["id"] for agent in stored) == sorted(reply.json()["id"] for reply in replies)
    created = count_by_subject(await event_log.read(names), "agent.created")
    assert created == {reply.json()["id"]: 1 for reply in replies}


async def _all_on_the_bus(log: EventLog, correlation_ids: Sequence[str], topic: str) -> bool:
    commands = await log.read(correlation_ids, [topic])
    return {command.correlation_id for command in commands} == set(correlation_ids)


@pytest.mark.crash("gateway")
@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)], ids=lambda how: how.name
)
async def test_gateway_ended_and_callers_repeat_their_requests(
    breakable: RunningStack, api: Api, model: HeldModel, event_log: EventLog, how: signal.Signals
) -> None:
    load = Load(api, model)
    names = [unique("opened") for _ in range(4)]

    async def open_session(name: str) -> httpx.Response:
        body = {**configuration(), "name": name}
        headers = {"idempotency-key": name, "x-correlation-id": name}
        return await api.persistently("POST", "/sessions/", json=body, headers=headers)

    with model.held():
        await load.start(plain=8, with_tool=2, careful=True)
        with breakable.stopped("runtime"):
            opening = [asyncio.create_task(open_session(name)) for name in names]
            await until(lambda: _all_on_the_bus(event_log, names, "runtime-commands"))
            # What a busy machine may have refused before is not meant.
            api.problems.clear()
            killed = breakable.kill("gateway", how)
        await asyncio.to_thread(breakable.wait_replaced, "gateway", killed)
        opened = await asyncio.gather(*opening)
    await load.check(event_log)
    assert api.problems, "no caller noticed that the gateway was gone"
    if how is signal.SIGTERM:
        # Whoever waits is told what to do instead of being cut off.
        assert any("service_unavailable" in problem for problem in api.problems)
    first = [await caller for caller in load.callers]
    again = [await load._careful(*turn) for turn in zip(load.sessions, load.texts, strict=True)]
    assert [reply.content for reply in again] == [reply.content for reply in first]
    assert all(len(model.asked(text)) == 1 for text in load.texts[:8])
    assert {reply.status_code for reply in opened} == {201}
    created = count_by_subject(await event_log.read(names), "session.created")
    assert created == {reply.json()["session_id"]: 1 for reply in opened}


@pytest.mark.crash("Kafka", "PostgreSQL")
@pytest.mark.parametrize("part", ["kafka", "postgres"])
async def test_a_server_killed_while_turns_run(
    breakable: RunningStack, api: Api, model: HeldModel, event_log: EventLog, part: str
) -> None:
    load = Load(api, model)
    with model.held():
        await load.start(plain=8, with_tool=2)
        killed = breakable.kill(part)
    # The answers come while there is no broker to tell of them, or no database to keep them.
    await asyncio.gather(*load.callers)
    await asyncio.to_thread(breakable.wait_replaced, part, killed)
    await load.check(event_log)
    if part == "kafka":
        assert all(len(model.asked(text)) == 1 for text in load.texts[:8])
    await check_goes_on(api, load.sessions[0])


@pytest.mark.crash("Kafka", "PostgreSQL", "gateway", "runtime")
@pytest.mark.slow
async def test_everything_killed_at_once(
    breakable: RunningStack, api: Api, model: HeldModel, event_log: EventLog
) -> None:
    sessions = [*await api.sessions(3, PLAIN), *await api.sessions(2, WITH_TOOL, tools=["calculator"])]
    texts = [unique("blackout") for _ in sessions]
    turns = []
    with model.held():
        for session, text in zip(sessions, texts, strict=True):
            accepted = await api.in_background(session, text, x_correlation_id=text)
            turns.append(accepted["turn_id"])
        before = (breakable.base_url, breakable.api_key)
        await asyncio.to_thread(breakable.kill_everything)
        await asyncio.to_thread(breakable.up)
    assert (breakable.base_url, breakable.api_key) == before
    ended = [await api.turn_ended(*turn) for turn in zip(sessions, turns, strict=True)]
    assert {turn["status"] for turn in ended} == {"completed"}
    for session, text in zip(sessions, texts, strict=True):
        history = await api.messages(session)
        assert [message["role"] for message in history] == ["user", "assistant"]
        assert history[0]["content"] == text
    assert count_by_subject(await event_log.ended(texts), *ENDS) == dict.fromkeys(turns, 1)
    await check_goes_on(api, sessions[0])


async def check_goes_on(api: Api, session: str) -> None:
    headers = {"idempotency-key": unique()}
    path = f"/runtime/{session}/execute/"
    reply = await api.persistently("POST", path, json={"content": "still there?"}, headers=headers)
    assert reply.status_code == 200
    assert [message["role"] for message in await api.messages(session)] == ["user", "assistant"] * 2
