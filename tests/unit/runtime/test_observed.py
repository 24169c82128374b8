"""Calls of models and tools and runs of agents, counted by outcome."""

import asyncio
from contextlib import AbstractContextManager, nullcontext

import pytest

from libs.contracts.identity import Identity
from services.runtime.adapters.observed import ObservedAgent, ObservedModel, observed
from services.runtime.domain.agents import AgentReply, AgentSpec, AgentTask, TurnJournal, TurnLost
from services.runtime.domain.conversation import JsonObject, ModelAnswer, TextPart, Usage, UserMessage
from services.runtime.domain.models import ModelFailed, ModelInfo, ModelRequest, OnText, ProviderInfo
from services.runtime.domain.tools import Toolbox, ToolContext, ToolDefinition, ToolFailed, ToolOutput
from tests.support.metrics import metric

CALLER = Identity(company_id="c", user_id="u", key_id="k", scopes=frozenset())
PROVIDERS = (ProviderInfo("openai", True, (ModelInfo("openai:known", vision=False),)),)


def raising(problem: BaseException | None) -> AbstractContextManager[object]:
    """Expects the same error outside."""
    return nullcontext() if problem is None else pytest.raises(type(problem))


class Model:
    def __init__(self, problem: BaseException | None = None) -> None:
        self.problem = problem

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        if self.problem is not None:
            raise self.problem
        return ModelAnswer("done", usage=Usage(3, 5, model_calls=1))


@pytest.mark.parametrize(
    ("named", "counted"),
    [("openai:known", "openai:known"), ("openai:tuned-for-acme", "openai:other"), ("nobody:x", "other:other")],
)
async def test_tokens_are_counted_by_models_that_are_listed(named: str, counted: str) -> None:
    before = [metric("aes_runtime_tokens_total", model=counted, direction=way) for way in ("input", "output")]
    await ObservedModel(Model(), PROVIDERS).answer(ModelRequest(named, "", ()))
    after = [metric("aes_runtime_tokens_total", model=counted, direction=way) for way in ("input", "output")]
    assert [new - old for new, old in zip(after, before, strict=True)] == [3, 5]
    assert metric("aes_runtime_model_call_duration_seconds_count", model=counted) >= 1


@pytest.mark.parametrize(
    ("problem", "outcome"),
    [
        (None, "completed"),
        (ModelFailed("no"), "model_error"),
        (RuntimeError(), "internal_error"),
        (asyncio.CancelledError(), "cancelled"),
    ],
)
async def test_calls_of_models_are_counted_by_outcome(problem: BaseException | None, outcome: str) -> None:
    labels = {"model": "openai:known", "outcome": outcome}
    before = metric("aes_runtime_model_calls_total", **labels)
    with raising(problem):
        await ObservedModel(Model(problem), PROVIDERS).answer(ModelRequest("openai:known", "", ()))
    assert metric("aes_runtime_model_calls_total", **labels) == before + 1


class Hammer:
    definition = ToolDefinition("hammer", "", {}, safe_to_repeat=True)

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        if "problem" in arguments:
            raise arguments["problem"]
        return ToolOutput("hit")


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [({}, "completed"), ({"problem": ToolFailed("no")}, "failed"), ({"problem": KeyError()}, "crashed")],
)
async def test_calls_of_tools_are_counted_by_outcome(arguments: JsonObject, outcome: str) -> None:
    labels = {"tool": "hammer", "outcome": outcome}
    before = metric("aes_runtime_tool_calls_total", **labels)
    tool = observed(Toolbox(Hammer()))["hammer"]
    with raising(arguments.get("problem")):
        assert (await tool.call(arguments, ToolContext("1", "t", "s", CALLER))).text == "hit"
    assert metric("aes_runtime_tool_calls_total", **labels) == before + 1


class Agent:
    def __init__(self, problem: Exception | None) -> None:
        self.problem = problem

    async def run(self, task: AgentTask, journal: TurnJournal) -> AgentReply:
        if self.problem is not None:
            raise self.problem
        answer = await Model().answer(ModelRequest(task.agent.model, "", ()))
        return AgentReply("done", answer, (), (), (), answer.usage, 1)


class Journal:
    steps = ()


@pytest.mark.parametrize(
    ("problem", "outcome"),
    [(None, "completed"), (TurnLost(), "lost"), (ModelFailed("no"), "model_error"), (KeyError(), "crashed")],
)
async def test_runs_of_agents_are_counted_by_outcome(problem: Exception | None, outcome: str) -> None:
    labels = {"agent_type": "llm_agent", "outcome": outcome}
    before = metric("aes_runtime_agent_runs_total", **labels)
    question = UserMessage((TextPart("hello"),))
    task = AgentTask("t", "s", CALLER, AgentSpec("llm_agent"), (), question)
    with raising(problem):
        await ObservedAgent(Agent(problem)).run(task, Journal())  # type: ignore[arg-type]
    assert metric("aes_runtime_agent_runs_total", **labels) == before + 1
