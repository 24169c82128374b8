"""Turns that wait for approvals and for results of client tools, also with crashes at every commit."""

import random
from dataclasses import dataclass, field
from typing import Final

import pytest

from services.runtime.domain.agents import AgentReply, AgentSpec, TurnLost, TurnWaits
from services.runtime.domain.conversation import (
    AssistantMessage,
    JsonObject,
    ModelAnswer,
    ToolCall,
    ToolMessage,
    ToolResult,
)
from services.runtime.domain.conversation_json import tool_call_from_json
from services.runtime.domain.models import ModelRequest
from services.runtime.domain.steps import Step
from services.runtime.domain.tools import ClientTool, Tool, ToolDefinition
from services.runtime.domain.waits import NewWait, call_hash
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
from tests.support.seeds import seeds

LOOK: Final = ClientTool(ToolDefinition("look", "…", {"type": "object"}, safe_to_repeat=False, run_by_client=True))
NAMES: Final = ("echo", "careful", "pay", "ask", "look")
SPEC: Final = AgentSpec("react_agent", model="scripted:model", tools=NAMES)


def toolbox() -> dict[str, FakeTool]:
    return {
        "echo": FakeTool("echo"),
        "careful": FakeTool("careful", safe_to_repeat=False),
        "pay": FakeTool("pay", safe_to_repeat=False, approval="always"),
        "ask": FakeTool("ask", approval="always"),
    }


async def run(model: ScriptedModel, journal: MemoryJournal, *tools: Tool) -> AgentReply | TurnWaits:
    runner = AgentRunner(model, with_tools(*tools))
    return await runner.run(agent_task(agent=SPEC), journal)


async def test_calls_that_need_nobody_are_made_before_the_turn_waits() -> None:
    tools = toolbox()
    journal = MemoryJournal()
    model = ScriptedModel(calling(("pay", {"text": "1"}), ("echo", {"text": "hi"}), ("look", {})))
    ended = await run(model, journal, *tools.values(), LOOK)
    assert isinstance(ended, TurnWaits)
    assert [(w.kind, w.step, w.call_id) for w in ended.waits] == [("approval", 1, "c1"), ("tool_result", 1, "c3")]
    assert [result.call_id for result in journal.results()] == ["c2"]
    assert tools["pay"].contexts == []


@pytest.mark.parametrize(("name", "arguments"), [("pay", {"text": 5}), ("unknown", {}), ("pay", {})])
async def test_nobody_is_asked_about_a_call_that_cannot_be_made(name: str, arguments: JsonObject) -> None:
    journal = MemoryJournal()
    reply = await run(ScriptedModel(calling((name, arguments)), answering("ok")), journal, *toolbox().values())
    assert isinstance(reply, AgentReply)
    assert journal.results()[0].status == "failed"


async def test_a_crash_before_the_wait_was_committed_asks_again_and_makes_nothing_unknown() -> None:
    tools, journal = toolbox(), MemoryJournal()
    model = ScriptedModel(calling(("pay", {"text": "1"})))
    assert isinstance(await run(model, journal, *tools.values()), TurnWaits)
    again = await run(model, MemoryJournal(journal.steps), *tools.values())
    assert isinstance(again, TurnWaits)
    assert (len(again.waits), journal.results(), len(model.requests)) == (1, [], 1)


async def test_another_call_than_the_approved_one_is_not_made() -> None:
    tools, journal = toolbox(), MemoryJournal()
    model = ScriptedModel(calling(("pay", {"text": "1000"})), answering("ok"))
    await run(model, journal, *tools.values())
    shown = call_hash(ToolCall("c1", "pay", {"text": "1"}))
    resumed = MemoryJournal(journal.steps, allowed_calls={"c1": shown}, after_wait=True)
    assert isinstance(await run(model, resumed, *tools.values()), AgentReply)
    assert tools["pay"].contexts == []
    assert "isn't the call that was approved" in resumed.results()[0].output


async def test_what_was_interrupted_after_its_approval_is_not_made_again() -> None:
    tools, journal = toolbox(), MemoryJournal()
    answer = calling(("pay", {"text": "1"}), ("ask", {"text": "1"}))
    model = ScriptedModel(answer, answering("ok"))
    await run(model, journal, *tools.values())
    allowed = {call.id: call_hash(call) for call in answer.tool_calls}
    taken_over = MemoryJournal(journal.steps, allowed_calls=allowed)
    assert isinstance(await run(model, taken_over, *tools.values()), AgentReply)
    assert {result.call_id: result.status for result in taken_over.results()} == {"c1": "unknown", "c2": "completed"}
    assert tools["pay"].contexts == []


@dataclass
class Simulation:
    """A turn whose worker dies at any commit, and whose actions are answered in any order and way."""

    seed: int
    tools: dict[str, FakeTool] = field(default_factory=toolbox)
    steps: list[Step] = field(default_factory=list)
    allowed: dict[str, str] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    given: dict[str, str] = field(default_factory=dict)
    waits: int = 0
    crashed_after_wait: bool = False

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.script = [self._calls(step) for step in range(self.random.randint(1, 4))]

    def _calls(self, step: int) -> ModelAnswer:
        names = self.random.choices(NAMES, k=self.random.randint(1, 5))
        calls = tuple(
            ToolCall(f"{step}.{number}", name, {"text": f"{step}.{number}"}) for number, name in enumerate(names)
        )
        return ModelAnswer("", calls, finish_reason="tool_calls")

    def answer(self, request: ModelRequest) -> ModelAnswer:
        """The model is shown each earlier call with exactly one result."""
        asked = [call.id for m in request.messages if isinstance(m, AssistantMessage) for call in m.tool_calls]
        told = [m.result.call_id for m in request.messages if isinstance(m, ToolMessage)]
        assert asked == told
        step = sum(isinstance(m, AssistantMessage) for m in request.messages)
        return self.script[step] if step < len(self.script) else answering("Done.")

    async def run(self) -> AgentReply:
        after_wait = False
        model = ScriptedModel(self.answer)
        for _ in range(200):
            crash_at = self.random.choice([None, None, 0, 1, 2, 3])
            journal = MemoryJournal(
                self.steps, lost_after=crash_at, allowed_calls=dict(self.allowed), after_wait=after_wait
            )
            try:
                ended = await run(model, journal, *self.tools.values(), LOOK)
            except TurnLost:
                self.crashed_after_wait |= after_wait
                after_wait = False
                continue
            if isinstance(ended, AgentReply):
                return ended
            # The worker may also die before the wait is committed.
            after_wait = self.random.random() < 0.7
            if after_wait:
                self.waits += 1
                for wait in self.random.sample(ended.waits, len(ended.waits)):
                    self._resolve(wait)
        raise AssertionError("the turn does not end")

    def _resolve(self, wait: NewWait) -> None:
        call = tool_call_from_json(wait.payload["tool_call"])
        if wait.kind == "approval" and self.random.random() < 0.6:
            self.allowed[call.id] = call_hash(call)
            return
        status = "failed" if wait.kind == "approval" else self.random.choice(["completed", "failed"])
        if wait.kind == "approval":
            self.denied.add(call.id)
        else:
            self.given[call.id] = status
        self.steps.append(Step(wait.step, ToolResult(call.id, call.name, "given", status)))  # type: ignore[arg-type]

    def made(self, *names: str) -> list[str]:
        return [context.call_id for name in names for context in self.tools[name].contexts]


@seeds(100, slow=200)
async def test_waits_and_crashes_in_any_order(seed: int) -> None:
    turn = Simulation(seed)
    reply = await turn.run()

    assert [made.call for made in reply.tool_calls] == [call for answer in turn.script for call in answer.tool_calls]
    unsafe = turn.made("careful", "pay")
    assert len(set(unsafe)) == len(unsafe), "an unsafe call is made once at most"
    assert set(turn.made("pay", "ask")) <= set(turn.allowed), "and one that needs approval only with it"
    for made in reply.tool_calls:
        status, call_id = made.result.status, made.call.id
        if made.call.name == "look":
            assert status == turn.given[call_id]
        elif call_id in turn.denied:
            assert status == "failed"
        elif made.call.name in ("echo", "ask"):
            assert status == "completed"
        elif made.call.name == "pay" and not turn.crashed_after_wait:
            assert status == "completed"
            assert call_id in unsafe
    needed = {call.id for answer in turn.script for call in answer.tool_calls if call.name in ("pay", "ask", "look")}
    assert needed == turn.allowed.keys() | turn.denied | turn.given.keys(), "each was asked for, once"
    assert turn.waits == len({call_id.split(".")[0] for call_id in needed})
