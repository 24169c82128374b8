"""Answers as data: read, refused and asked for again, a bounded number of times, also across a crash."""

from dataclasses import replace
from typing import Any

import pytest

from libs.contracts.errors import ErrorKind, ValidationFailed
from libs.contracts.resources.turns import ModelSettings
from services.runtime.domain.agents import AgentReply, AgentSpec, TurnLost
from services.runtime.domain.conversation import AssistantMessage, Citation, ModelAnswer, UserMessage
from services.runtime.domain.knowledge import KnowledgeBaseRef
from services.runtime.domain.models import ModelFailed, ModelRequest
from services.runtime.domain.steps import ModelOutput, Step
from services.runtime.use_cases.agent.agent_loop import AgentRunner
from services.runtime.use_cases.agent.schemas import correction, read_output
from tests.support.agent_fakes import (
    FakeRetriever,
    FakeTool,
    MemoryJournal,
    ScriptedModel,
    agent_task,
    answering,
    calling,
    with_tools,
)

PRICE = {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}
AS_PRICE = ModelSettings(output_schema=PRICE)
TALKS = AgentSpec("llm_agent", system_prompt="Be kind.", model="scripted:model", settings=AS_PRICE)
ACTS = AgentSpec("react_agent", model="scripted:model", tools=("echo",), settings=AS_PRICE, max_steps=2)
GOOD, BAD, WORSE = answering('{"price": 4}'), answering('{"price": "four"}'), answering("Four euros.")


async def run(
    model: ScriptedModel, journal: MemoryJournal, agent: AgentSpec = TALKS, tool: FakeTool | None = None
) -> Any:
    return await AgentRunner(model, with_tools(tool or FakeTool())).run(agent_task(agent=agent), journal)


async def test_the_value_is_read_from_json_with_or_without_a_fence_and_problems_are_named() -> None:
    for text in ('{"price": 4}', '\n{"price": 4} ', '```json\n{"price": 4}\n```', '```\n{"price": 4}\n```'):
        read = await read_output(PRICE, text)
        assert (read.value, read.problems) == ({"price": 4}, ())
    assert (await read_output(PRICE, BAD.text)).problems == ('price: "four" is not of type "number"',)
    assert (await read_output(PRICE, WORSE.text)).problems[0].startswith("the answer isn't JSON: ")
    assert (await read_output(PRICE, "[" * 400 + "]" * 400)).problems[0].startswith("the answer isn't JSON: ")
    told = "Your answer was rejected:\n* price: wrong\nAnswer again with JSON only. It must match the schema."
    assert correction(("price: wrong",)).text == told
    with pytest.raises(ValidationFailed, match="output_schema"):
        await read_output({"type": "objct"}, "{}")


async def test_an_answer_that_fits_is_the_output_beside_its_text() -> None:
    model, journal = ScriptedModel(GOOD), MemoryJournal()
    reply = await run(model, journal)
    assert (reply.text, reply.output, reply.steps) == (GOOD.text, {"price": 4}, 1)
    assert reply.to_json()["output"] == {"price": 4}
    assert model.requests[0].settings.output_schema == PRICE
    assert journal.steps == []
    plain = await run(ScriptedModel(GOOD), MemoryJournal(), replace(TALKS, settings=ModelSettings()))
    assert plain.output is None
    assert "output" not in plain.to_json(), "without a schema there is none"


async def test_output_cannot_name_passages_so_all_of_them_are_cited() -> None:
    """Numbers in brackets are an array's there."""
    passages = (Citation("It costs four."), Citation("It costs five."))
    agent = replace(
        TALKS, settings=ModelSettings(output_schema={"type": "array"}), knowledge_bases=(KnowledgeBaseRef("kb"),)
    )
    runner = AgentRunner(ScriptedModel(answering("[1]")), with_tools(), FakeRetriever(*passages))
    reply = await runner.run(agent_task(agent=agent), MemoryJournal())
    assert isinstance(reply, AgentReply)
    assert reply.citations == passages


@pytest.mark.parametrize("agent", [TALKS, ACTS])
async def test_what_does_not_fit_is_asked_for_again_with_the_problems(agent: AgentSpec) -> None:
    model, journal = ScriptedModel(WORSE, BAD, GOOD), MemoryJournal(wants_text=True)
    reply = await run(model, journal, agent)
    assert (reply.output, reply.steps, reply.usage.model_calls) == ({"price": 4}, 3, 3)
    refused, told = model.requests[2].messages[-2:]
    assert refused == AssistantMessage(BAD.text)
    assert isinstance(told, UserMessage)
    assert 'price: "four" is not of type "number"' in told.text
    outputs = [(step.number, step.content) for step in journal.steps if isinstance(step.content, ModelOutput)]
    assert [(number, bool(output.problems)) for number, output in outputs] == [(1, True), (2, True)]
    assert sorted({step for step, _ in journal.text}) == [1, 2, 3]


@pytest.mark.parametrize("agent", [TALKS, ACTS])
async def test_after_two_repeats_the_turn_fails_by_its_model(agent: AgentSpec) -> None:
    model, journal = ScriptedModel(BAD), MemoryJournal()
    with pytest.raises(ModelFailed, match="doesn't match output_schema: price") as failure:
        await run(model, journal, agent)
    assert failure.value.kind is ErrorKind.MODEL
    assert (len(model.requests), len(journal.steps)) == (3, 2)


async def test_only_the_final_answer_of_a_react_agent_is_checked() -> None:
    model, tool = ScriptedModel(calling(("echo", {"text": "a"}), text="I look it up."), BAD, GOOD), FakeTool()
    reply = await run(model, MemoryJournal(), ACTS, tool)
    assert (reply.output, reply.steps, len(tool.contexts)) == ({"price": 4}, 3, 1)
    assert [request.answer_in_text for request in model.requests] == [False, True, True]


@pytest.mark.parametrize("agent", [TALKS, ACTS])
@pytest.mark.parametrize("lost_after", [0, 1])
async def test_a_resumed_turn_asks_only_for_what_is_not_recorded(agent: AgentSpec, lost_after: int) -> None:
    first, journal = ScriptedModel(WORSE, BAD, GOOD), MemoryJournal(lost_after=lost_after)
    with pytest.raises(TurnLost):
        await run(first, journal, agent)
    journal.lost_after = None
    script: list[ModelAnswer] = [WORSE, BAD, GOOD][lost_after:]
    second = ScriptedModel(*script)
    reply = await run(second, journal, agent)
    assert (reply.output, reply.steps, len(second.requests)) == ({"price": 4}, 3, 3 - lost_after)
    assert _shown(second.requests[-1]) == [
        text
        for answer in (WORSE, BAD)
        for text in (answer.text, correction((await read_output(PRICE, answer.text)).problems).text)
    ]


async def test_the_repeats_of_earlier_attempts_count() -> None:
    journal = MemoryJournal(steps=[Step(n, ModelOutput(BAD, problems=("price: wrong",))) for n in (1, 2)])
    model = ScriptedModel(BAD)
    with pytest.raises(ModelFailed):
        await run(model, journal)
    assert len(model.requests) == 1


def _shown(request: ModelRequest) -> list[str]:
    return [message.text for message in request.messages if isinstance(message, UserMessage | AssistantMessage)][1:]
