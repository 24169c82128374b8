"""Turns that go on after a crash, and calls that a model repeats."""

import asyncio
from dataclasses import replace

import pytest

from services.runtime.domain.agents import AgentSpec, TurnLost
from services.runtime.domain.conversation import (
    AssistantMessage,
    ToolMessage,
    ToolResult,
)
from services.runtime.domain.steps import ModelOutput, Step
from services.runtime.use_cases.agent.agent_loop import AgentLimits, AgentRunner
from tests.support.agent_fakes import (
    FakeTool,
    MemoryJournal,
    ScriptedModel,
    agent_task,
    answering,
    calling,
    with_tools,
)


async def test_a_resumed_turn_goes_on_after_its_last_step() -> None:
    first = calling(("echo", {"text": "one"}))
    journal = MemoryJournal([Step(1, ModelOutput(first)), Step(1, ToolResult("c1", "echo", "one"))])
    model, tool = ScriptedModel(answering("Done.")), FakeTool()

    reply = await AgentRunner(model, with_tools(tool)).run(agent_task(), journal)

    assert tool.contexts == [], "a finished call is not made again"
    assert len(model.requests) == 1
    assert model.requests[0].messages[-2:] == (
        AssistantMessage("", first.tool_calls),
        ToolMessage(ToolResult("c1", "echo", "one")),
    )
    assert (reply.steps, reply.usage.model_calls, len(reply.tool_calls)) == (2, 2, 1)


async def test_a_resumed_turn_gives_the_provider_back_what_it_sent() -> None:
    first = calling(("echo", {"text": "one"}))
    call = replace(first.tool_calls[0], provider_data={"extra_content": {"sig": "s"}})
    given = replace(first, tool_calls=(call,), provider_data={"reasoning_content": "Hm."})
    journal, tool = MemoryJournal(lost_after=2), FakeTool()
    model = ScriptedModel(given, answering("Done."))
    await AgentRunner(model, with_tools(tool)).run(agent_task(), journal)
    assert model.requests[1].messages[-2] == AssistantMessage("", (call,), {"reasoning_content": "Hm."})

    resumed = ScriptedModel(answering("Done."))
    await AgentRunner(resumed, with_tools(tool)).run(agent_task(), MemoryJournal(journal.steps))
    assert resumed.requests[0].messages == model.requests[1].messages


async def test_a_call_without_result_is_repeated_when_that_is_safe() -> None:
    answer = calling(("echo", {"text": "one"}), ("echo", {"text": "two"}))
    journal = MemoryJournal([Step(1, ModelOutput(answer)), Step(1, ToolResult("c1", "echo", "one"))])
    tool = FakeTool()

    reply = await AgentRunner(ScriptedModel(answering("ok")), with_tools(tool)).run(agent_task(), journal)

    assert [context.call_id for context in tool.contexts] == ["c2"]
    assert [made.result.output for made in reply.tool_calls] == ["one", "two"]


@pytest.mark.rule(12)
async def test_a_call_without_result_is_not_repeated_when_that_is_unsafe() -> None:
    journal = MemoryJournal([Step(1, ModelOutput(calling(("pay", {"text": "100"}))))])
    agent = AgentSpec("react_agent", model="scripted:model", tools=("pay",))
    tool, model = FakeTool("pay", safe_to_repeat=False), ScriptedModel(answering("I do not know."))

    reply = await AgentRunner(model, with_tools(tool)).run(agent_task(agent=agent), journal)

    assert tool.contexts == []
    assert reply.tool_calls[0].result.status == "unknown"
    assert journal.results()[0].status == "unknown"
    told = model.requests[0].messages[-1]
    assert isinstance(told, ToolMessage)
    assert "unknown whether the call was executed" in told.result.output


async def test_a_new_call_of_an_unsafe_tool_is_made() -> None:
    agent = AgentSpec("react_agent", model="scripted:model", tools=("pay",))
    tool = FakeTool("pay", safe_to_repeat=False)
    model = ScriptedModel(calling(("pay", {"text": "100"})), answering("Paid."))
    await AgentRunner(model, with_tools(tool)).run(agent_task(agent=agent), MemoryJournal())
    assert len(tool.contexts) == 1


async def test_the_step_limit_counts_recorded_steps() -> None:
    journal = MemoryJournal(
        [Step(1, ModelOutput(calling(("echo", {"text": "a"})))), Step(1, ToolResult("c1", "echo", "a"))]
    )
    model = ScriptedModel(answering("ok"))
    await AgentRunner(model, with_tools(FakeTool()), limits=AgentLimits(steps=2)).run(agent_task(), journal)
    assert model.requests[0].answer_in_text


async def test_no_tool_is_called_when_the_turn_is_lost_before() -> None:
    tool = FakeTool()
    model = ScriptedModel(calling(("echo", {"text": "x"})))
    with pytest.raises(TurnLost):
        await AgentRunner(model, with_tools(tool)).run(agent_task(), MemoryJournal(lost_after=0))
    assert tool.contexts == []


async def test_a_lost_turn_cancels_the_calls_that_still_run() -> None:
    quick, slow = FakeTool("quick"), FakeTool("slow", delay=30, timeout_seconds=60)
    agent = AgentSpec("react_agent", model="scripted:model", tools=("quick", "slow"))
    model = ScriptedModel(calling(("slow", {"text": "x"}), ("quick", {"text": "x"})))
    with pytest.raises(TurnLost):
        await AgentRunner(model, with_tools(quick, slow)).run(agent_task(agent=agent), MemoryJournal(lost_after=1))
    assert slow.cancelled == 1


async def test_cancelling_the_turn_cancels_its_calls() -> None:
    slow = FakeTool(delay=30, timeout_seconds=60)
    model = ScriptedModel(calling(("echo", {"text": "x"}), ("echo", {"text": "y"})))
    turn = asyncio.create_task(AgentRunner(model, with_tools(slow)).run(agent_task(), MemoryJournal()))
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
    again = calling(("echo", {"text": "same"}))
    model, journal = ScriptedModel(again, again, again, again, answering("ok")), MemoryJournal()

    reply = await AgentRunner(model, with_tools(FakeTool())).run(agent_task(), journal)

    told = _shown(model)
    assert told[:2] == ["same", "same"]
    assert "echo has now returned the same result for the same arguments 3 times" in told[2]
    assert "4 times" in told[3]
    assert {made.result.output for made in reply.tool_calls} == {"same"}, "callers see what the tool said"  # type: ignore[union-attr]


async def test_other_arguments_or_answers_do_not_count() -> None:
    answers = iter("abcd")
    script = [calling(("echo", {"text": "x"})), calling(("echo", {"text": "x"})), calling(("echo", {"text": "x"}))]
    model = ScriptedModel(*script, answering("ok"))
    await AgentRunner(model, with_tools(FakeTool(behave=lambda _: next(answers)))).run(agent_task(), MemoryJournal())
    assert _shown(model) == ["a", "b", "c"]

    script = [calling(("echo", {"text": text})) for text in ("a", "b", "c")]
    model = ScriptedModel(*script, answering("ok"))
    await AgentRunner(model, with_tools(FakeTool(behave=lambda _: "same"))).run(agent_task(), MemoryJournal())
    assert _shown(model) == ["same"] * 3


async def test_a_resumed_turn_tells_its_model_the_same() -> None:
    again, together = calling(("echo", {"text": "same"})), calling(*[("echo", {"text": "same"})] * 2)
    model, journal = ScriptedModel(again, together, answering("ok")), MemoryJournal()
    await AgentRunner(model, with_tools(FakeTool())).run(agent_task(), journal)
    steps: list[Step] = journal.steps

    resumed = ScriptedModel(answering("ok"))
    await AgentRunner(resumed, with_tools(FakeTool())).run(agent_task(), MemoryJournal(steps))

    assert _shown(resumed) == _shown(model)
    assert [" 3 times" in told for told in _shown(resumed)] == [False, False, True]
