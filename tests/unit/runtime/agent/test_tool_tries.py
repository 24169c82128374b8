"""Tries of a tool call: time limit, retries, and how many calls run at once."""

import asyncio
from dataclasses import replace
from itertools import chain

import pytest

from libs.contracts.identity import Identity
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolDefinition, ToolFailed, ToolOutput
from services.runtime.use_cases.agent.tool_tries import ToolTries
from tests.support.agent_fakes import CALLER, FakeTool

CONTEXT = ToolContext("call", "turn", "session", CALLER)


class Failing:
    """Fails as told, one failure a try, then answers."""

    def __init__(self, *failures: ToolFailed, **definition: object) -> None:
        defaults: dict[str, object] = {"safe_to_repeat": True, "retries": 2, "timeout_seconds": 30.0}
        self.definition = ToolDefinition("desk.ask", "", {}, **{**defaults, **definition})  # type: ignore[arg-type]
        self.failures = list(failures)
        self.tries = 0

    async def call(self, _arguments: JsonObject, _context: ToolContext, /) -> ToolOutput:
        self.tries += 1
        if self.failures:
            raise self.failures.pop(0)
        return ToolOutput("done")


class Sleeps(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def passing(retry_after: float | None = None) -> ToolFailed:
    return ToolFailed("busy", retry=True, retry_after=retry_after)


async def test_a_safe_call_is_repeated() -> None:
    for tool, slept in (
        (Failing(passing(), passing()), [1.0, 4.0]),
        (Failing(passing(3.0), passing(0.0)), [3.0, 4.0]),
        (Failing(passing(), retries=1), [1.0]),
    ):
        sleeps = Sleeps()
        assert (await ToolTries(sleep=sleeps).run(tool, {}, CONTEXT)).text == "done"
        assert (tool.tries, sleeps) == (len(slept) + 1, slept)


@pytest.mark.parametrize(
    ("tool", "tries", "message"),
    [
        (Failing(passing(), safe_to_repeat=False), 1, "^busy$"),
        (Failing(ToolFailed("wrong")), 1, "^wrong$"),
        (Failing(passing(), retries=0), 1, "^busy$"),
        (Failing(passing(), ToolFailed("wrong")), 2, r"^wrong \(2 attempts\)$"),
        (Failing(*[passing()] * 5), 3, r"^busy \(3 attempts\)$"),
        (Failing(passing(60.0)), 1, "^busy$"),
        (Failing(passing(), timeout_seconds=0.9), 1, "^busy$"),
    ],
)
async def test_a_call_is_not_repeated_when_that_is_unsafe_useless_or_too_late(
    tool: Failing, tries: int, message: str
) -> None:
    with pytest.raises(ToolFailed, match=message):
        await ToolTries(sleep=Sleeps()).run(tool, {}, CONTEXT)
    assert tool.tries == tries


async def test_a_call_that_is_tried_out_is_made_once() -> None:
    tool = Failing(passing())
    with pytest.raises(ToolFailed):
        await ToolTries(sleep=Sleeps()).run(tool, {}, CONTEXT, once=True)
    assert tool.tries == 1


async def test_an_unsafe_call_that_takes_too_long_may_have_been_carried_out() -> None:
    tool = FakeTool(delay=30, safe_to_repeat=False, timeout_seconds=0.01)

    with pytest.raises(ToolFailed, match=r"^echo didn't finish .* It's unknown whether the call was executed\.$"):
        await ToolTries().run(tool, {"text": ""}, CONTEXT)


def _of_toolset(name: str, *, delay: float = 3600.0, timeout_seconds: float = 600.0) -> FakeTool:
    tool = FakeTool(f"{name}.ask", delay=delay, timeout_seconds=timeout_seconds)
    tool.definition = replace(tool.definition, toolset=name)
    return tool


def _in_company(name: str) -> ToolContext:
    caller = Identity(company_id=name, user_id="user", key_id="key", scopes=frozenset())
    return ToolContext("call", "turn", "session", caller)


async def _started(tries: ToolTries, tool: FakeTool, company: str, count: int) -> list[asyncio.Task[ToolOutput]]:
    calls = [asyncio.create_task(tries.run(tool, {"text": "x"}, _in_company(company))) for _ in range(count)]
    for _ in range(10):
        await asyncio.sleep(0)
    return calls


async def _stopped(*calls: list[asyncio.Task[ToolOutput]]) -> None:
    for call in chain(*calls):
        call.cancel()
    await asyncio.gather(*chain(*calls), return_exceptions=True)


@pytest.mark.parametrize(
    ("tries", "company", "running"),
    [
        # Those that wait for one toolset hold nothing of another.
        (ToolTries(at_once=10, each_company=5, each_toolset=2), "a", 2),
        # A company leaves places for others.
        (ToolTries(at_once=4, each_company=3, each_toolset=10), "b", 3),
    ],
)
async def test_a_toolset_and_a_company_have_so_many_calls_at_once(tries: ToolTries, company: str, running: int) -> None:
    greedy, modest = _of_toolset("greedy"), _of_toolset("modest")
    calls = await _started(tries, greedy, "a", 20)
    more = await _started(tries, modest, company, 1)
    assert (greedy.running, modest.running) == (running, 1)
    await _stopped(calls, more)


async def test_waiting_for_a_place_ends_at_the_time_limit_and_built_in_tools_wait_for_nobody() -> None:
    tries = ToolTries(at_once=1, each_company=1, each_toolset=1)
    calls = await _started(tries, _of_toolset("slow"), "a", 1)

    late = _of_toolset("slow", timeout_seconds=0.01)
    with pytest.raises(ToolFailed, match=r"wasn't called within 0\.01 s, because too many other calls were running"):
        await tries.run(late, {"text": "x"}, _in_company("a"))
    assert late.contexts == []
    assert (await tries.run(FakeTool(), {"text": "x"}, _in_company("a"))).text == "x"
    await _stopped(calls)
