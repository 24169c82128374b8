"""An agent's model calls and tool calls, and when it stops."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from libs.contracts.resources.turns import ModelSettings, NamedTool
from libs.json_text import read_json, write_json
from libs.persistence import as_json
from services.runtime.adapters.tools.knowledge_search import KnowledgeSearch
from services.runtime.domain.agents import AgentReply, AgentSpec, client_tool
from services.runtime.domain.conversation import (
    AssistantMessage,
    Citation,
    JsonObject,
    ModelAnswer,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
)
from services.runtime.domain.conversation_json import (
    answer_from_json,
    answer_to_json,
    tool_result_from_json,
    tool_result_to_json,
)
from services.runtime.domain.knowledge import KnowledgeBaseRef
from services.runtime.domain.models import ModelFailed, ModelRequest, OptionNotSupported
from services.runtime.domain.steps import ModelOutput
from services.runtime.domain.tools import LONGEST_RESULT, Tool
from services.runtime.domain.turns import stored_reply, whole_reply
from services.runtime.domain.waits import call_hash
from services.runtime.use_cases.agent.agent_loop import AgentRunner
from tests.support.agent_fakes import (
    CALLER,
    FakeRetriever,
    FakeTool,
    MemoryJournal,
    Script,
    ScriptedModel,
    agent_task,
    answering,
    calling,
    failing,
    said,
    with_tools,
)

LLM = AgentSpec(
    "llm_agent",
    system_prompt="Be kind.",
    model="scripted:model",
    settings=ModelSettings(temperature=0.3),
    tools=("echo",),
)
REACT = agent_task().agent
BASE = (KnowledgeBaseRef("kb"),)
WARNED = "one base is gone"


class Turn:
    """A turn of an agent: what its model, its tools and its journal are given."""

    def __init__(
        self, *script: Script, tools: Sequence[Tool] | None = None, journal: MemoryJournal | None = None
    ) -> None:
        self.model = ScriptedModel(*script)
        self.tool = FakeTool()
        self.tools = (self.tool,) if tools is None else tools
        self.journal = journal or MemoryJournal()

    async def run(
        self,
        question: str = "What is 6*7?",
        *,
        retriever: FakeRetriever | None = None,
        **task: Any,
    ) -> AgentReply:
        runner = AgentRunner(self.model, with_tools(*self.tools), retriever)
        reply = await runner.run(agent_task(question, **task), self.journal)
        assert isinstance(reply, AgentReply)
        return reply

    @property
    def requests(self) -> list[ModelRequest]:
        return self.model.requests


def two_passages() -> FakeRetriever:
    return FakeRetriever(Citation("The first."), Citation("The second."), warnings=(WARNED,))


def echo(text: str, before: str = "") -> ModelAnswer:
    return calling(("echo", {"text": text}), text=before)


async def test_llm_agent_makes_one_call_without_tools() -> None:
    turn = Turn(answering("Hello."))
    history = (said("one"), AssistantMessage("two"))

    reply = await turn.run("three", agent=LLM, history=history)

    [request] = turn.requests
    assert (reply.text, reply.steps, reply.usage) == ("Hello.", 1, Usage(10, 5, model_calls=1))
    assert request.messages == (*history, said("three"))
    assert (request.system, request.settings.temperature, request.tools) == ("Be kind.", 0.3, ())
    assert turn.journal.transactions == 0


async def test_llm_agent_answers_from_its_knowledge_bases_and_cites_named_chunks() -> None:
    turn, retriever = Turn(answering("It is the second [2].")), two_passages()

    reply = await turn.run("which?", agent=replace(LLM, knowledge_bases=BASE), retriever=retriever)

    assert retriever.queries == [("which?", ("kb",), CALLER)]
    assert reply.citations == (Citation("The second."),)
    assert reply.warnings == (WARNED,)
    assert "[1] The first." in turn.requests[0].instructions()


async def test_llm_agent_without_a_retriever_warns_and_goes_on() -> None:
    reply = await Turn(answering("Hi.")).run(agent=replace(LLM, knowledge_bases=BASE))

    assert reply.text == "Hi."
    assert "knowledge bases aren't available" in reply.warnings[0]


async def test_react_agent_calls_tools_until_it_answers() -> None:
    turn = Turn(echo("ping", "Let me see."), answering("It said ping."), journal=MemoryJournal(wants_text=True))

    reply = await turn.run()

    assert reply.text == "It said ping."
    assert reply.to_json()["tool_calls"] == [
        {"id": "c1", "name": "echo", "arguments": {"text": "ping"}, "status": "completed", "output": "ping"}
    ]
    assert (reply.steps, reply.usage) == (2, Usage(20, 10, model_calls=2))
    assert turn.journal.transactions == 2, "answer with its started call, result; the rest goes with the completion"
    assert turn.requests[1].messages[-1] == ToolMessage(ToolResult("c1", "echo", "ping"))
    assert {step for step, _ in turn.journal.text} == {1, 2}
    assert "".join(piece for step, piece in turn.journal.text if step == 2) == reply.text
    assert turn.tool.contexts[0].call_id == "c1"


@pytest.mark.parametrize("given", ["", "x" * 3000], ids=["empty", "long"])
async def test_a_call_without_a_usable_id_gets_one(given: str) -> None:
    calls = (ToolCall(given, "echo", {"text": "a"}), ToolCall(given, "echo", {"text": "b"}))
    turn = Turn(ModelAnswer("", calls), answering("ok"))
    await turn.run()
    ids = {result.call_id for result in turn.journal.results()}
    assert len(ids) == 2
    assert all(0 < len(call_id) < 100 for call_id in ids)


async def test_several_calls_run_side_by_side_within_a_bound() -> None:
    tool = FakeTool(delay=0.01)
    turn = Turn(calling(*(("echo", {"text": str(n)}) for n in range(6))), answering("done"), tools=[tool])

    reply = await turn.run()

    assert [made.result.output for made in reply.tool_calls] == ["0", "1", "2", "3", "4", "5"]
    assert tool.most_running == 4


NO_JSON = ModelAnswer("", (ToolCall("c1", "echo", {}, validation_error="the arguments aren't valid JSON"),))


@pytest.mark.parametrize(
    ("call", "said_to_model"),
    [
        (calling(("nothing", {})), "Unknown tool 'nothing'. Use one of: echo."),
        (calling(("echo", {"text": 5})), 'text: 5 is not of type "string"'),
        (calling(("echo", {})), '"text" is a required property'),
        (calling(("echo", {"text": "x", "more": 1})), "Additional properties are not allowed"),
        (NO_JSON, "aren't valid JSON"),
    ],
)
async def test_a_call_that_cannot_be_made_is_told_to_the_model(call: ModelAnswer, said_to_model: str) -> None:
    turn = Turn(call, answering("ok"))
    assert (await turn.run()).text == "ok"
    [result] = turn.journal.results()
    assert result.status == "failed"
    assert said_to_model in result.output
    assert turn.tool.contexts == []


@pytest.mark.parametrize(
    ("tool", "said_to_model"),
    [
        (FakeTool(behave=failing("the page is gone")), "the page is gone"),
        (FakeTool(behave=lambda text: {"other": "x"}[text]), "echo failed: internal error (KeyError)."),
        (FakeTool(delay=30, timeout_seconds=0.01), "echo didn't finish within 0.01 s."),
    ],
)
async def test_a_failing_tool_does_not_end_the_turn(tool: FakeTool, said_to_model: str) -> None:
    turn = Turn(echo("x"), answering("Sorry."), tools=[tool])
    assert (await turn.run()).text == "Sorry."
    assert [(result.status, result.output) for result in turn.journal.results()] == [("failed", said_to_model)]


async def test_long_tool_output_is_cut() -> None:
    turn = Turn(echo("x"), answering("ok"), tools=[FakeTool(behave=lambda _text: "x" * 50_000)])
    await turn.run()
    assert turn.journal.results()[0].output == "x" * LONGEST_RESULT + "\n[truncated: 50000 characters in total]"


async def test_the_last_step_asks_for_text_without_tools() -> None:
    turn = Turn(lambda request: answering("Enough.") if request.answer_in_text else echo("again"))
    reply = await turn.run(agent=replace(REACT, max_steps=4))

    assert (reply.text, reply.steps, len(reply.tool_calls)) == ("Enough.", 4, 3)
    assert "reached the step limit" in turn.requests[-1].system
    assert len({made.call.id for made in reply.tool_calls}) == 3, "repeated ids of a provider are made unique"


async def test_a_model_that_never_stops_calling_is_stopped() -> None:
    turn = Turn(echo("again"))
    reply = await turn.run(agent=replace(REACT, max_steps=3))
    assert reply.text == "I couldn't finish this within the step limit of 3."
    assert len(turn.requests) == 3


async def test_a_failed_model_fails_the_turn_and_a_cut_answer_is_a_warning() -> None:
    with pytest.raises(ModelFailed):
        await Turn(ModelFailed("down", 500)).run(agent=LLM)
    reply = await Turn(answering("and so", "length")).run(agent=LLM)
    assert reply.warnings == ("the answer was cut off at the model's length limit",)


async def test_react_agent_gets_knowledge_search_for_its_knowledge_bases() -> None:
    passage = Citation("The tower is white.", knowledge_base_id="kb", file_name="tower.md", score=0.5)
    search = FakeTool("knowledge_search", citations=(passage,))
    twice = calling(("knowledge_search", {"text": "a"}), ("knowledge_search", {"text": "b"}))
    turn = Turn(twice, answering("White [1]."), tools=[search])
    reply = await turn.run(agent=replace(REACT, tools=(), knowledge_bases=BASE))

    assert reply.citations == (passage,), "found twice, cited once"
    assert search.contexts[0].knowledge_bases == BASE
    assert reply.to_json()["citations"] == [
        {"passage": "The tower is white.", "score": 0.5, "knowledge_base_id": "kb", "file_name": "tower.md"}
    ]


SEARCH = calling(("knowledge_search", {"query": "which"}))


@pytest.mark.parametrize("text", ["I found nothing about that.", "See [7], or [n].", ""])
async def test_an_answer_that_names_no_chunk_rests_on_none(text: str) -> None:
    retriever = FakeRetriever(*(Citation(f"Passage {number}.") for number in range(1, 6)))
    once = await Turn(answering(text)).run("which?", agent=replace(LLM, knowledge_bases=BASE), retriever=retriever)
    react = replace(REACT, tools=(), knowledge_bases=BASE)
    searched = await Turn(SEARCH, answering(text), tools=[KnowledgeSearch(retriever)]).run(agent=react)
    assert (once.citations, searched.citations) == ((), ())


async def test_react_agent_cites_named_chunks_and_passes_warnings_on() -> None:
    turn = Turn(SEARCH, answering("The second [2]."), tools=[KnowledgeSearch(two_passages())])
    reply = await turn.run(agent=replace(REACT, tools=(), knowledge_bases=BASE))

    assert reply.citations == (Citation("The second."),)
    assert reply.warnings == (WARNED,)
    recorded = tool_result_from_json(tool_result_to_json(turn.journal.results()[0]))
    assert recorded.warnings == (WARNED,), "a resumed turn warns as well"


def test_the_agent_is_read_from_its_configuration() -> None:
    spec = AgentSpec.from_config(
        {
            "name": "a",
            "agent_type": "react_agent",
            "llm_config": {"model": "openai:x", "temperature": 0.1, "max_steps": 4},
            "tools": ["calculator"],
            "knowledge_bases": ["one", {"id": "two", "top_k": 3, "mode": "keyword", "min_score": 0.2}],
        }
    )
    assert (spec.model, spec.settings.temperature, spec.max_steps, spec.tools) == ("openai:x", 0.1, 4, ("calculator",))
    assert spec.knowledge_bases == (KnowledgeBaseRef("one"), KnowledgeBaseRef("two", 3, "keyword", 0.2))
    assert AgentSpec.from_config({"agent_type": "llm_agent"}).model == "builtin:extractive"


async def test_a_forced_call_is_asked_for_until_a_call_is_made() -> None:
    turn = Turn(echo("a"), answering("Done."))
    settings = ModelSettings(tool_choice="required", parallel_tool_calls=False, stop=["END"])
    assert (await turn.run(agent=replace(REACT, settings=settings))).text == "Done."
    later = {"stop": ["END"], "parallel_tool_calls": False}
    assert [request.settings.given() for request in turn.requests] == [{**later, "tool_choice": "required"}, later]


async def test_a_turn_that_may_call_no_tools_answers_in_text() -> None:
    turn = Turn(echo("a", "I would rather call."))
    reply = await turn.run(agent=replace(REACT, settings=ModelSettings(tool_choice="none")))
    assert (reply.text, reply.steps, turn.tool.contexts) == ("I would rather call.", 1, [])
    [request] = turn.requests
    assert [tool.name for tool in request.tools] == ["echo"]
    assert request.callable_tools == ()


async def test_a_tool_that_has_to_be_called_and_is_not_there_fails_the_turn() -> None:
    turn = Turn(answering("Hello."))
    settings = ModelSettings(tool_choice=NamedTool(name="missing"))
    with pytest.raises(OptionNotSupported, match=r"'missing'.*Available tools: echo"):
        await turn.run(agent=replace(REACT, settings=settings))
    assert turn.requests == []


async def test_an_llm_agent_with_client_tools_calls_these_alone_and_keeps_its_knowledge() -> None:
    retriever = two_passages()
    turn = Turn(answering("It is the second [2]."), tools=[FakeTool(), KnowledgeSearch(retriever)])
    agent = replace(LLM, knowledge_bases=BASE, client_tools=(client_tool({"name": "locate"}),))
    reply = await turn.run("which?", agent=agent, retriever=retriever)
    [request] = turn.requests
    assert [tool.name for tool in request.tools] == ["locate"]
    assert [chunk.passage for chunk in request.chunks] == ["The first.", "The second."]
    assert [citation.passage for citation in reply.citations] == ["The second."]
    assert reply.warnings == (WARNED,)


async def test_integers_of_any_size_are_recorded_called_and_told() -> None:
    arguments: JsonObject = {"text": "one", "n": 12345678901234567890123}
    turn = Turn(*[calling(("echo", arguments))] * 3, answering('{"n": 12345678901234567890123}'))
    turn.tool.definition = replace(turn.tool.definition, parameters={"type": "object"})
    reply = await turn.run(agent=replace(REACT, settings=ModelSettings(output_schema={"type": "object"})))
    assert reply.output == {"n": 12345678901234567890123}
    assert [made.call.arguments for made in reply.tool_calls] == [arguments] * 3
    assert len({call_hash(replace(made.call, id="c")) for made in reply.tool_calls}) == 1

    [first, *_] = turn.journal.steps
    assert isinstance(first.content, ModelOutput)
    kept = answer_from_json(read_json(as_json(answer_to_json(first.content.answer))))
    assert kept == first.content.answer
    names = ("message_id", "correlation_id", "session_id", "turn_id", "user_message_id", "usage")
    columns = dict.fromkeys(names, "kept elsewhere")
    payload = write_json({**columns, "response": {"content": "", **reply.to_json()}})
    stored = whole_reply(stored_reply(payload).decode(), "", columns)
    assert stored["response"]["tool_calls"][0]["arguments"] == arguments


async def test_ids_of_calls_are_not_those_of_earlier_turns() -> None:
    before = (
        said("First?"),
        AssistantMessage("", (ToolCall("c1", "echo", {"text": "a"}),)),
        ToolMessage(ToolResult("c1", "echo", "a")),
        AssistantMessage("a"),
    )
    turn = Turn(echo("b"), answering("Done."))
    reply = await turn.run(history=before)
    assert reply.tool_calls[0].call.id != "c1"
    assert turn.requests[1].messages[:4] == before
