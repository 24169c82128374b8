"""An agent's model calls and tool calls, and when it stops."""

from dataclasses import replace

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
from services.runtime.domain.turns import stored_reply, whole_reply
from services.runtime.domain.waits import call_hash
from services.runtime.use_cases.agent.agent_loop import AgentLimits, AgentRunner
from tests.support.agent_fakes import (
    CALLER,
    FakeRetriever,
    FakeTool,
    MemoryJournal,
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


async def test_llm_agent_makes_one_call_without_tools() -> None:
    model, journal = ScriptedModel(answering("Hello.")), MemoryJournal()
    history = (said("one"), AssistantMessage("two"))

    reply = await AgentRunner(model, with_tools(FakeTool())).run(
        agent_task("three", agent=LLM, history=history), journal
    )

    request = model.requests[0]
    assert (reply.text, reply.steps, reply.usage) == ("Hello.", 1, Usage(10, 5, model_calls=1))
    assert request.messages == (*history, said("three"))
    assert (request.system, request.settings.temperature, request.tools) == ("Be kind.", 0.3, ())
    assert journal.transactions == 0


async def test_llm_agent_answers_from_its_knowledge_bases_and_cites_named_chunks() -> None:
    retriever = FakeRetriever(Citation("The first."), Citation("The second."), warnings=("one base is gone",))
    model = ScriptedModel(answering("It is the second [2]."))
    agent = replace(LLM, knowledge_bases=(KnowledgeBaseRef("kb"),))

    reply = await AgentRunner(model, with_tools(), retriever).run(agent_task("which?", agent=agent), MemoryJournal())

    assert retriever.queries == [("which?", ("kb",), CALLER)]
    assert reply.citations == (Citation("The second."),)
    assert reply.warnings == ("one base is gone",)
    assert "[1] The first." in model.requests[0].instructions()


async def test_llm_agent_without_a_retriever_warns_and_goes_on() -> None:
    agent = replace(LLM, knowledge_bases=(KnowledgeBaseRef("kb"),))

    reply = await AgentRunner(ScriptedModel(answering("Hi.")), with_tools()).run(
        agent_task(agent=agent), MemoryJournal()
    )

    assert reply.text == "Hi."
    assert "knowledge bases aren't available" in reply.warnings[0]


async def test_react_agent_calls_tools_until_it_answers() -> None:
    model = ScriptedModel(calling(("echo", {"text": "ping"}), text="Let me see."), answering("It said ping."))
    journal, tool = MemoryJournal(wants_text=True), FakeTool()

    reply = await AgentRunner(model, with_tools(tool)).run(agent_task(), journal)

    assert reply.text == "It said ping."
    assert reply.to_json()["tool_calls"] == [
        {"id": "c1", "name": "echo", "arguments": {"text": "ping"}, "status": "completed", "output": "ping"}
    ]
    assert (reply.steps, reply.usage) == (2, Usage(20, 10, model_calls=2))
    assert journal.transactions == 2, "answer with its started call, result; the rest goes with the completion"
    assert model.requests[1].messages[-1] == ToolMessage(ToolResult("c1", "echo", "ping"))
    assert {step for step, _ in journal.text} == {1, 2}
    assert "".join(piece for step, piece in journal.text if step == 2) == reply.text
    assert tool.contexts[0].call_id == "c1"


@pytest.mark.parametrize("given", ["", "x" * 3000])
async def test_a_call_without_a_usable_id_gets_one(given: str) -> None:
    answer = ModelAnswer("", (ToolCall(given, "echo", {"text": "a"}), ToolCall(given, "echo", {"text": "b"})))
    model, journal = ScriptedModel(answer, answering("ok")), MemoryJournal()
    await AgentRunner(model, with_tools(FakeTool())).run(agent_task(), journal)
    ids = {result.call_id for result in journal.results()}
    assert len(ids) == 2
    assert all(0 < len(call_id) < 100 for call_id in ids)


async def test_several_calls_run_side_by_side_within_a_bound() -> None:
    tool = FakeTool(delay=0.01)
    model = ScriptedModel(calling(*(("echo", {"text": str(n)}) for n in range(6))), answering("done"))

    limits = AgentLimits(tool_concurrency=3)
    reply = await AgentRunner(model, with_tools(tool), limits=limits).run(agent_task(), MemoryJournal())

    assert [made.result.output for made in reply.tool_calls] == ["0", "1", "2", "3", "4", "5"]
    assert tool.most_running == 3


@pytest.mark.parametrize(
    ("call", "said_to_model"),
    [
        (("nothing", {}), "Unknown tool 'nothing'. Use one of: echo."),
        (("echo", {"text": 5}), 'text: 5 is not of type "string"'),
        (("echo", {}), '"text" is a required property'),
        (("echo", {"text": "x", "more": 1}), "Additional properties are not allowed"),
    ],
)
async def test_a_call_that_cannot_be_made_is_told_to_the_model(
    call: tuple[str, JsonObject], said_to_model: str
) -> None:
    tool, journal = FakeTool(), MemoryJournal()
    reply = await AgentRunner(ScriptedModel(calling(call), answering("ok")), with_tools(tool)).run(
        agent_task(), journal
    )

    assert reply.text == "ok"
    assert journal.results()[0].status == "failed"
    assert said_to_model in journal.results()[0].output
    assert tool.contexts == []


async def test_arguments_that_are_no_json_are_told_to_the_model() -> None:
    broken = ModelAnswer("", (ToolCall("c1", "echo", {}, validation_error="the arguments aren't valid JSON"),))
    journal = MemoryJournal()
    await AgentRunner(ScriptedModel(broken, answering("ok")), with_tools(FakeTool())).run(agent_task(), journal)
    assert "aren't valid JSON" in journal.results()[0].output


@pytest.mark.parametrize(
    ("tool", "said_to_model"),
    [
        (FakeTool(behave=failing("the page is gone")), "the page is gone"),
        (FakeTool(behave=lambda text: {"other": "x"}[text]), "echo failed: internal error (KeyError)."),
        (FakeTool(delay=30, timeout_seconds=0.01), "echo didn't finish within 0.01 seconds."),
    ],
)
async def test_a_failing_tool_does_not_end_the_turn(tool: FakeTool, said_to_model: str) -> None:
    journal = MemoryJournal()
    model = ScriptedModel(calling(("echo", {"text": "x"})), answering("Sorry."))
    reply = await AgentRunner(model, with_tools(tool)).run(agent_task(), journal)

    assert reply.text == "Sorry."
    assert (journal.results()[0].status, journal.results()[0].output) == ("failed", said_to_model)


async def test_long_tool_output_is_cut() -> None:
    tool = FakeTool(behave=lambda _text: "x" * 5000)
    journal = MemoryJournal()
    model = ScriptedModel(calling(("echo", {"text": "x"})), answering("ok"))
    await AgentRunner(model, with_tools(tool), limits=AgentLimits(tool_output=100)).run(agent_task(), journal)
    assert journal.results()[0].output == "x" * 100 + "\n[truncated: 5000 characters in total]"


async def test_the_last_step_asks_for_text_without_tools() -> None:
    def eager(request: ModelRequest) -> ModelAnswer:
        return calling(("echo", {"text": "again"})) if not request.answer_in_text else answering("Enough.")

    model = ScriptedModel(eager)
    reply = await AgentRunner(model, with_tools(FakeTool()), limits=AgentLimits(steps=4)).run(
        agent_task(), MemoryJournal()
    )

    assert (reply.text, reply.steps, len(reply.tool_calls)) == ("Enough.", 4, 3)
    assert "reached the step limit" in model.requests[-1].system
    assert len({made.call.id for made in reply.tool_calls}) == 3, "repeated ids of a provider are made unique"


async def test_a_model_that_never_stops_calling_is_stopped() -> None:
    agent = AgentSpec("react_agent", model="scripted:model", tools=("echo",), max_steps=3)
    model = ScriptedModel(calling(("echo", {"text": "again"})))
    reply = await AgentRunner(model, with_tools(FakeTool())).run(agent_task(agent=agent), MemoryJournal())
    assert len(model.requests) == 3
    assert reply.text == "I couldn't finish this within 3 steps."


async def test_a_failed_model_fails_the_turn() -> None:
    with pytest.raises(ModelFailed):
        await AgentRunner(ScriptedModel(ModelFailed("down", 500)), with_tools()).run(
            agent_task(agent=LLM), MemoryJournal()
        )


async def test_a_cut_answer_is_a_warning() -> None:
    reply = await AgentRunner(ScriptedModel(answering("and so", "length")), with_tools()).run(
        agent_task(agent=LLM), MemoryJournal()
    )
    assert reply.warnings == ("the answer was cut off at the model's length limit",)


async def test_react_agent_gets_knowledge_search_for_its_knowledge_bases() -> None:
    passage = Citation("The tower is white.", knowledge_base_id="kb", file_name="tower.md", score=0.5)
    search = FakeTool("knowledge_search", citations=(passage,))
    agent = AgentSpec("react_agent", model="scripted:model", knowledge_bases=(KnowledgeBaseRef("kb"),))
    model = ScriptedModel(
        calling(("knowledge_search", {"text": "a"}), ("knowledge_search", {"text": "b"})), answering("White [1].")
    )
    reply = await AgentRunner(model, with_tools(search)).run(agent_task(agent=agent), MemoryJournal())

    assert reply.citations == (passage,), "found twice, cited once"
    assert search.contexts[0].knowledge_bases == (KnowledgeBaseRef("kb"),)
    assert reply.to_json()["citations"] == [
        {"passage": "The tower is white.", "score": 0.5, "knowledge_base_id": "kb", "file_name": "tower.md"}
    ]


@pytest.mark.parametrize("text", ["I found nothing about that.", "See [7], or [n].", ""])
async def test_an_answer_that_names_no_chunk_rests_on_none(text: str) -> None:
    retriever = FakeRetriever(*(Citation(f"Passage {number}.") for number in range(1, 6)))
    agent = replace(LLM, knowledge_bases=(KnowledgeBaseRef("kb"),))
    once = await AgentRunner(ScriptedModel(answering(text)), with_tools(), retriever).run(
        agent_task("which?", agent=agent), MemoryJournal()
    )
    react = AgentSpec("react_agent", model="scripted:model", knowledge_bases=(KnowledgeBaseRef("kb"),))
    model = ScriptedModel(calling(("knowledge_search", {"query": "which"})), answering(text))
    searched = await AgentRunner(model, with_tools(KnowledgeSearch(retriever))).run(
        agent_task(agent=react), MemoryJournal()
    )
    assert (once.citations, searched.citations) == ((), ())


async def test_react_agent_cites_named_chunks_and_passes_warnings_on() -> None:
    retriever = FakeRetriever(Citation("The first."), Citation("The second."), warnings=("one base is gone",))
    agent = AgentSpec("react_agent", model="scripted:model", knowledge_bases=(KnowledgeBaseRef("kb"),))
    model = ScriptedModel(calling(("knowledge_search", {"query": "which"})), answering("The second [2]."))
    journal = MemoryJournal()

    reply = await AgentRunner(model, with_tools(KnowledgeSearch(retriever))).run(agent_task(agent=agent), journal)

    assert reply.citations == (Citation("The second."),)
    assert reply.warnings == ("one base is gone",)
    recorded = tool_result_from_json(tool_result_to_json(journal.results()[0]))
    assert recorded.warnings == ("one base is gone",), "a resumed turn warns as well"


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
    model = ScriptedModel(calling(("echo", {"text": "a"})), answering("Done."))
    settings = ModelSettings(tool_choice="required", parallel_tool_calls=False, stop=["END"])
    agent = replace(agent_task().agent, settings=settings)
    reply = await AgentRunner(model, with_tools(FakeTool())).run(agent_task(agent=agent), MemoryJournal())
    assert reply.text == "Done."
    later = {"stop": ["END"], "parallel_tool_calls": False}
    assert [request.settings.given() for request in model.requests] == [{**later, "tool_choice": "required"}, later]


async def test_a_turn_that_may_call_no_tools_answers_in_text() -> None:
    model = ScriptedModel(calling(("echo", {"text": "a"}), text="I would rather call."))
    agent, tool = replace(agent_task().agent, settings=ModelSettings(tool_choice="none")), FakeTool()
    reply = await AgentRunner(model, with_tools(tool)).run(agent_task(agent=agent), MemoryJournal())
    assert (reply.text, reply.steps, tool.contexts) == ("I would rather call.", 1, [])
    assert [tool.name for tool in model.requests[0].tools] == ["echo"]
    assert model.requests[0].callable_tools == ()


async def test_a_tool_that_has_to_be_called_and_is_not_there_fails_the_turn() -> None:
    model = ScriptedModel(answering("Hello."))
    agent = replace(agent_task().agent, settings=ModelSettings(tool_choice=NamedTool(name="missing")))
    with pytest.raises(OptionNotSupported, match=r"'missing'.*Use one of: echo"):
        await AgentRunner(model, with_tools(FakeTool())).run(agent_task(agent=agent), MemoryJournal())
    assert model.requests == []


async def test_an_llm_agent_with_client_tools_calls_these_alone_and_keeps_its_knowledge() -> None:
    locate = client_tool({"name": "locate"})
    agent = replace(LLM, knowledge_bases=(KnowledgeBaseRef("kb"),), client_tools=(locate,))
    model = ScriptedModel(answering("It is the second [2]."))
    retriever = FakeRetriever(Citation("The first."), Citation("The second."), warnings=("one base is gone",))
    source = with_tools(FakeTool(), KnowledgeSearch(retriever))
    reply = await AgentRunner(model, source, retriever).run(agent_task("which?", agent=agent), MemoryJournal())
    assert isinstance(reply, AgentReply)
    assert [tool.name for tool in model.requests[0].tools] == ["locate"]
    assert [chunk.passage for chunk in model.requests[0].chunks] == ["The first.", "The second."]
    assert [citation.passage for citation in reply.citations] == ["The second."]
    assert reply.warnings == ("one base is gone",)


async def test_integers_of_any_size_are_recorded_called_and_told() -> None:
    arguments = {"text": "one", "n": 12345678901234567890123}
    tool, journal = FakeTool(), MemoryJournal()
    tool.definition = replace(tool.definition, parameters={"type": "object"})
    model = ScriptedModel(*[calling(("echo", arguments))] * 3, answering('{"n": 12345678901234567890123}'))
    agent = replace(agent_task().agent, settings=ModelSettings(output_schema={"type": "object"}))
    reply = await AgentRunner(model, with_tools(tool)).run(agent_task(agent=agent), journal)
    assert reply.output == {"n": 12345678901234567890123}
    assert [made.call.arguments for made in reply.tool_calls] == [arguments] * 3
    assert len({call_hash(replace(made.call, id="c")) for made in reply.tool_calls}) == 1

    [first, *_] = journal.steps
    assert isinstance(first.content, ModelOutput)
    kept = answer_from_json(read_json(as_json(answer_to_json(first.content.answer))))
    assert kept == first.content.answer
    columns = dict.fromkeys(
        ("message_id", "correlation_id", "session_id", "turn_id", "user_message_id", "usage"), "kept elsewhere"
    )
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
    model = ScriptedModel(calling(("echo", {"text": "b"})), answering("Done."))
    reply = await AgentRunner(model, with_tools(FakeTool())).run(agent_task(history=before), MemoryJournal())
    assert reply.tool_calls[0].call.id != "c1"
    assert model.requests[1].messages[:4] == before
