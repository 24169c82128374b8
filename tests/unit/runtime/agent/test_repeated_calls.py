"""A tool that gives the same answer to the same arguments again is named to the model."""

from services.runtime.domain.conversation import ToolMessage
from services.runtime.domain.steps import Step
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
