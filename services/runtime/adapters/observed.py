"""Measures and traces turns, agents, models and tools, without recording prompts, arguments or answers."""

from collections.abc import Awaitable, Callable, Iterable
from time import perf_counter
from typing import Final, TypeVar

from prometheus_client import Counter, Gauge, Histogram

from libs import tracing
from libs.contracts.errors import ServiceError
from libs.contracts.resources.toolsets import ConnectedTool, DiscoveredTools
from services.runtime.domain.agents import AgentLoop, AgentReply, AgentTask, TurnJournal, TurnLost, TurnWaits
from services.runtime.domain.conversation import JsonObject, ModelAnswer
from services.runtime.domain.models import ChatModel, ModelRequest, OnText, ProviderInfo
from services.runtime.domain.tools import Tool, Toolbox, ToolContext, ToolDefinition, ToolFailed, ToolOutput
from services.runtime.domain.toolsets import Toolset, ToolsetConnector
from services.runtime.domain.turns import OutcomeKind, TurnOutcome

_LONG: Final = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
_ENDED: Final = Counter(
    "aes_runtime_turns_ended_total",
    "Turn executions that ended in this process, by outcome.",
    ["outcome"],
)
_SECONDS: Final = Histogram(
    "aes_runtime_turn_duration_seconds", "Time from claiming a turn until its outcome is committed.", buckets=_LONG
)
AGENT_RUNS: Final = Counter(
    "aes_runtime_agent_runs_total",
    "Agent runs, by outcome.",
    ["agent_type", "outcome"],
)
AGENT_SECONDS: Final = Histogram(
    "aes_runtime_agent_run_duration_seconds", "Duration of agent runs.", ["agent_type"], buckets=_LONG
)
_TAKEN_OVER: Final = Counter(
    "aes_runtime_turns_taken_over_total", "Turns taken over from dead or unresponsive workers."
)
_RUNNING: Final = Gauge("aes_runtime_turns_running", "Turns running in this process.")
_QUEUED: Final = Gauge("aes_runtime_turns_queued", "Queued turns across the installation.")
_OPEN_WAITS: Final = Gauge("aes_runtime_open_actions", "Unresolved required actions across the installation.")
MODEL_CALLS: Final = Counter(
    "aes_runtime_model_calls_total", "Model calls, by outcome. A call and its retries count once.",
    ["model", "outcome"],
)  # fmt: skip
MODEL_SECONDS: Final = Histogram(
    "aes_runtime_model_call_duration_seconds", "Duration of model calls, including retries.", ["model"], buckets=_LONG
)
RETRIED_MODEL_CALLS: Final = Counter("aes_runtime_model_retries_total", "Retries of model calls.", ["provider"])
TOKENS: Final = Counter("aes_runtime_tokens_total", "Tokens reported by providers.", ["model", "direction"])
TOOL_CALLS: Final = Counter("aes_runtime_tool_calls_total", "Tool calls, by outcome.", ["tool", "outcome"])
TOOL_SECONDS: Final = Histogram(
    "aes_runtime_tool_call_duration_seconds", "Duration of tool calls.", ["tool"],
    buckets=(0.001, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100),
)  # fmt: skip

for _outcome in (*OutcomeKind, "lost"):
    # Exports zeros, because Prometheus doesn't see an increase if a counter first appears as 1.
    _ENDED.labels(str(_outcome))


class PrometheusMetrics:
    def ended(self, outcome: TurnOutcome, *, applied: bool, seconds: float) -> None:
        _ENDED.labels(outcome.kind.value if applied else "lost").inc()
        _SECONDS.observe(seconds)

    def observed(self, *, running: int, queued: int) -> None:
        _RUNNING.set(running)
        _QUEUED.set(queued)

    def open_waits(self, number: int) -> None:
        _OPEN_WAITS.set(number)

    def taken_over(self, turns: int) -> None:
        _TAKEN_OVER.inc(turns)


T = TypeVar("T")
_OTHER: Final = "other"


async def _measured(
    call: Awaitable[T],
    label: str,
    counter: Counter,
    seconds: Histogram,
    outcome_of: Callable[[Exception], str],
    result_of: Callable[[T], str] = lambda _: "completed",
) -> T:
    began = perf_counter()
    # Calls are also cancelled at the turn's deadline and when the worker stops.
    outcome = "cancelled"
    try:
        result = await call
        outcome = result_of(result)
        return result
    except Exception as problem:
        outcome = outcome_of(problem)
        raise
    finally:
        counter.labels(label, outcome).inc()
        seconds.labels(label).observe(perf_counter() - began)


class ObservedAgent:
    """Wraps an AgentLoop to measure and trace its runs."""

    def __init__(self, agent: AgentLoop) -> None:
        self._agent = agent

    async def run(self, task: AgentTask, journal: TurnJournal) -> AgentReply | TurnWaits:
        attributes: dict[str, tracing.Value | None] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": task.session_id,
            "aes.agent_type": task.agent.agent_type,
            "aes.turn_id": task.turn_id,
            "aes.company_id": task.caller.company_id,
            "aes.steps_resumed": len(journal.steps),
        }
        with tracing.span("invoke_agent", attributes=attributes):
            run = self._agent.run(task, journal)
            return await _measured(
                run,
                task.agent.agent_type,
                AGENT_RUNS,
                AGENT_SECONDS,
                self._outcome_of,
                lambda ended: "waiting" if isinstance(ended, TurnWaits) else "completed",
            )

    @staticmethod
    def _outcome_of(problem: Exception) -> str:
        if isinstance(problem, TurnLost):
            return "lost"
        return problem.kind.value if isinstance(problem, ServiceError) else "crashed"


class ObservedModel:
    """Wraps a ChatModel to measure and trace its calls."""

    def __init__(self, model: ChatModel, providers: Iterable[ProviderInfo]) -> None:
        self._model = model
        self._listed = {model.name for provider in providers for model in provider.models}
        self._providers = {provider.name for provider in providers}

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        provider, _, model = request.model.partition(":")
        attributes: dict[str, tracing.Value | None] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
            **{f"gen_ai.request.{name}": value for name, value in request.sampling().items()},
        }
        with tracing.span(f"chat {model}", tracing.Kind.CLIENT, attributes) as span:
            label = self._label(request.model)
            call = self._model.answer(request, on_text)
            answer = await _measured(call, label, MODEL_CALLS, MODEL_SECONDS, self._outcome_of)
            TOKENS.labels(label, "input").inc(answer.usage.input_tokens)
            TOKENS.labels(label, "output").inc(answer.usage.output_tokens)
            span.set("gen_ai.response.finish_reasons", answer.finish_reason)
            span.set("gen_ai.usage.input_tokens", answer.usage.input_tokens)
            span.set("gen_ai.usage.output_tokens", answer.usage.output_tokens)
            return answer

    def _label(self, model: str) -> str:
        """Returns the model's label in metrics. Unlisted models share a label, since each label adds a series."""
        if model in self._listed:
            return model
        provider = model.partition(":")[0]
        return f"{provider if provider in self._providers else _OTHER}:{_OTHER}"

    @staticmethod
    def _outcome_of(problem: Exception) -> str:
        return problem.kind.value if isinstance(problem, ServiceError) else "internal_error"


async def _called(call: Awaitable[ToolOutput], name: str, label: str, context: ToolContext) -> ToolOutput:
    """Measures and traces a tool call. `label` is the tool's name in metrics."""
    attributes: dict[str, tracing.Value | None] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": context.call_id,
    }
    with tracing.span(f"execute_tool {name}", attributes=attributes):
        return await _measured(call, label, TOOL_CALLS, TOOL_SECONDS, _call_outcome)


def _call_outcome(problem: Exception) -> str:
    return "failed" if isinstance(problem, ToolFailed) else "crashed"


class ObservedTool:
    """Wraps a Tool to measure and trace its calls."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self.definition: ToolDefinition = tool.definition

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        name = self.definition.name
        return await _called(self._tool.call(arguments, context), name, name, context)


def observed(toolbox: Toolbox) -> Toolbox:
    return Toolbox(*(ObservedTool(tool) for tool in toolbox.values()))


class ObservedConnector:
    """Wraps a ToolsetConnector to measure and trace its calls. The label in metrics is the toolset's type."""

    def __init__(self, connector: ToolsetConnector) -> None:
        self._connector = connector

    async def discover(self, toolset: Toolset, /) -> DiscoveredTools:
        return await self._connector.discover(toolset)

    async def call(
        self, toolset: Toolset, tool: ConnectedTool, arguments: JsonObject, context: ToolContext, /
    ) -> ToolOutput:
        call = self._connector.call(toolset, tool, arguments, context)
        return await _called(call, f"{toolset.name}.{tool.name}", f"toolset:{toolset.type}", context)
