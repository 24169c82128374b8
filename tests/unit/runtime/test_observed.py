"""Calls of models and tools and runs of agents, counted by outcome."""

import asyncio
from collections.abc import Awaitable
from contextlib import nullcontext

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


async def counted(name: str, run: Awaitable[object], problem: BaseException | None, **labels: str) -> None:
    """Runs what is observed: it fails with its own problem, and is counted once."""
    before = metric(name, **labels)
    with nullcontext() if problem is None else pytest.raises(type(problem)):
        await run
    assert metric(name, **labels) == before + 1


class Model:
    def __init__(self, problem: BaseException | None = None) -> None:
        self.problem = problem

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        if self.problem is not None:
            raise self.problem
        return ModelAnswer("done", usage=Usage(3, 5, model_calls=1))


def tokens(model: str) -> list[float]:
    return [metric("aes_runtime_tokens_total", model=model, direction=way) for way in ("input", "output")]


async def test_tokens_are_counted_by_models_that_are_listed() -> None:
    shown = {"openai:known": "openai:known", "openai:tuned-for-acme": "openai:other", "nobody:x": "other:other"}
    for named, label in shown.items():
        before = tokens(label)
        await ObservedModel(Model(), PROVIDERS).answer(ModelRequest(named, "", ()))
        assert [new - old for new, old in zip(tokens(label), before, strict=True)] == [3, 5]
        assert metric("aes_runtime_model_call_duration_seconds_count", model=label) >= 1


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
    answer = ObservedModel(Model(problem), PROVIDERS).answer(ModelRequest("openai:known", "", ()))
    await counted("aes_runtime_model_calls_total", answer, problem, model="openai:known", outcome=outcome)


class Hammer:
    definition = ToolDefinition("hammer", "", {}, safe_to_repeat=True)

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        if "problem" in arguments:
            raise arguments["problem"]
        return ToolOutput("hit")


async def test_calls_of_tools_are_counted_by_outcome() -> None:
    tool, context = observed(Toolbox(Hammer()))["hammer"], ToolContext("1", "t", "s", CALLER)
    for problem, outcome in ((None, "completed"), (ToolFailed("no"), "failed"), (KeyError(), "crashed")):
        call = tool.call({} if problem is None else {"problem": problem}, context)
        await counted("aes_runtime_tool_calls_total", call, problem, tool="hammer", outcome=outcome)
    assert (await tool.call({}, context)).text == "hit"


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
    task = AgentTask("t", "s", CALLER, AgentSpec("llm_agent"), (), UserMessage((TextPart("hello"),)))
    run = ObservedAgent(Agent(problem)).run(task, Journal())  # type: ignore[arg-type]
    await counted("aes_runtime_agent_runs_total", run, problem, agent_type="llm_agent", outcome=outcome)
