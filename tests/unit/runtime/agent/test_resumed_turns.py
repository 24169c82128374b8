"""Turns that go on after a crash, and calls that a model repeats."""

import asyncio
from dataclasses import replace

import pytest

from services.runtime.domain.agents import AgentReply, AgentSpec, TurnLost
from services.runtime.domain.conversation import AssistantMessage, ModelAnswer, ToolMessage, ToolResult
from services.runtime.domain.steps import ModelOutput, Step
from services.runtime.use_cases.agent.agent_loop import AgentRunner
from tests.support.agent_fakes import (
    FakeTool,
    MemoryJournal,
    ScriptedModel,
    agent_task,
    answering,
    calling,
    with_tools,
)


def echo(text: str) -> ModelAnswer:
    return calling(("echo", {"text": text}))


async def run(
    model: ScriptedModel, *tools: FakeTool, journal: MemoryJournal | None = None, max_steps: int | None = None
) -> AgentReply:
    """The reply of an agent with these tools."""
    names = tuple(tool.definition.name for tool in tools)
    agent = AgentSpec("react_agent", model="scripted:model", tools=names, max_steps=max_steps)
    runner = AgentRunner(model, with_tools(*tools))
    reply = await runner.run(agent_task(agent=agent), journal or MemoryJournal())
    assert isinstance(reply, AgentReply)
    return reply


async def test_a_resumed_turn_goes_on_after_its_last_step() -> None:
    first = echo("one")
    journal = MemoryJournal([Step(1, ModelOutput(first)), Step(1, ToolResult("c1", "echo", "one"))])
    model, tool = ScriptedModel(answering("Done.")), FakeTool()

    reply = await run(model, tool, journal=journal, max_steps=2)

    assert tool.contexts == [], "a finished call is not made again"
    assert len(model.requests) == 1
    assert model.requests[0].messages[-2:] == (
        AssistantMessage("", first.tool_calls),
        ToolMessage(ToolResult("c1", "echo", "one")),
    )
    assert (reply.steps, reply.usage.model_calls, len(reply.tool_calls)) == (2, 2, 1)
    assert model.requests[0].answer_in_text, "recorded steps count for the limit"


async def test_a_resumed_turn_gives_the_provider_back_what_it_sent() -> None:
    first = echo("one")
    call = replace(first.tool_calls[0], provider_data={"extra_content": {"sig": "s"}})
    given = replace(first, tool_calls=(call,), provider_data={"reasoning_content": "Hm."})
    journal, tool = MemoryJournal(lost_after=2), FakeTool()
    model = ScriptedModel(given, answering("Done."))
    await run(model, tool, journal=journal)
    assert model.requests[1].messages[-2] == AssistantMessage("", (call,), {"reasoning_content": "Hm."})

    resumed = ScriptedModel(answering("Done."))
    await run(resumed, tool, journal=MemoryJournal(journal.steps))
    assert resumed.requests[0].messages == model.requests[1].messages


async def test_a_call_without_result_is_repeated_when_that_is_safe() -> None:
    answer = calling(("echo", {"text": "one"}), ("echo", {"text": "two"}))
    journal = MemoryJournal([Step(1, ModelOutput(answer)), Step(1, ToolResult("c1", "echo", "one"))])
    tool = FakeTool()

    reply = await run(ScriptedModel(answering("ok")), tool, journal=journal)

    assert [context.call_id for context in tool.contexts] == ["c2"]
    assert [made.result.output for made in reply.tool_calls] == ["one", "two"]


@pytest.mark.rule(12)
async def test_a_call_without_result_is_not_repeated_when_that_is_unsafe() -> None:
    journal = MemoryJournal([Step(1, ModelOutput(calling(("pay", {"text": "100"}))))])
    tool, model = FakeTool("pay", safe_to_repeat=False), ScriptedModel(answering("I do not know."))

    reply = await run(model, tool, journal=journal)

    assert tool.contexts == []
    assert reply.tool_calls[0].result.status == "unknown"
    assert journal.results()[0].status == "unknown"
    told = model.requests[0].messages[-1]
    assert isinstance(told, ToolMessage)
    assert "unknown whether the call was executed" in told.result.output


async def test_a_new_call_of_an_unsafe_tool_is_made() -> None:
    tool = FakeTool("pay", safe_to_repeat=False)
    await run(ScriptedModel(calling(("pay", {"text": "100"})), answering("Paid.")), tool)
    assert len(tool.contexts) == 1


async def test_a_turn_that_is_lost_calls_no_tool_and_cancels_the_calls_that_still_run() -> None:
    quick, slow = FakeTool("quick"), FakeTool("slow", delay=30, timeout_seconds=60)
    model = ScriptedModel(calling(("slow", {"text": "x"}), ("quick", {"text": "x"})))
    for lost_after, started in ((0, 0), (1, 1)):
        with pytest.raises(TurnLost):
            await run(model, quick, slow, journal=MemoryJournal(lost_after=lost_after))
        assert (len(quick.contexts), len(slow.contexts), slow.cancelled) == (started, started, started)


async def test_cancelling_the_turn_cancels_its_calls() -> None:
    slow = FakeTool(delay=30, timeout_seconds=60)
    model = ScriptedModel(calling(("echo", {"text": "x"}), ("echo", {"text": "y"})))
    turn = asyncio.create_task(run(model, slow))
    async with asyncio.timeout(60):
        while slow.running < 2:
            await asyncio.sleep(0)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert slow.cancelled == 2


def _shown(model: ScriptedModel) -> list[str]:
    return [message.result.output for message in model.requests[-1].messages if isinstance(message, ToolMessage)]


async def test_the_third_same_answer_says_so_by_name() -> None:
    model = ScriptedModel(*[echo("same")] * 4, answering("ok"))

    reply = await run(model, FakeTool())

    told = _shown(model)
    assert told[:2] == ["same", "same"]
    assert "echo has now returned the same result for the same arguments 3 times" in told[2]
    assert "4 times" in told[3]
    assert {made.result.output for made in reply.tool_calls} == {"same"}, "callers see what the tool said"


async def test_other_arguments_or_answers_do_not_count() -> None:
    answers = iter("abcd")
    model = ScriptedModel(*[echo("x")] * 3, answering("ok"))
    await run(model, FakeTool(behave=lambda _: next(answers)))
    assert _shown(model) == ["a", "b", "c"]

    model = ScriptedModel(echo("a"), echo("b"), echo("c"), answering("ok"))
    await run(model, FakeTool(behave=lambda _: "same"))
    assert _shown(model) == ["same"] * 3


async def test_a_resumed_turn_tells_its_model_the_same() -> None:
    together = calling(*[("echo", {"text": "same"})] * 2)
    model, journal = ScriptedModel(echo("same"), together, answering("ok")), MemoryJournal()
    await run(model, FakeTool(), journal=journal)

    resumed = ScriptedModel(answering("ok"))
    await run(resumed, FakeTool(), journal=MemoryJournal(journal.steps))

    assert _shown(resumed) == _shown(model)
    assert [" 3 times" in told for told in _shown(resumed)] == [False, False, True]
