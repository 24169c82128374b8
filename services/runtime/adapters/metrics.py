"""The runtime's Prometheus metrics."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from services.runtime.domain.turns import OutcomeKind, TurnOutcome

_LONG: Final = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
_ENDED: Final = Counter(
    "aes_runtime_turns_ended_total",
    "Executions by how they ended here; lost: another worker or a cancellation was first.",
    ["outcome"],
)
_SECONDS: Final = Histogram("aes_runtime_turn_duration_seconds", "From the claim to the committed end.", buckets=_LONG)
AGENT_RUNS: Final = Counter(
    "aes_runtime_agent_runs_total",
    "Runs of agents, by the type of the error; lost: the turn is another worker's, or cancelled.",
    ["agent_type", "outcome"],
)
AGENT_SECONDS: Final = Histogram(
    "aes_runtime_agent_run_duration_seconds", "Of runs of agents.", ["agent_type"], buckets=_LONG
)
_TAKEN_OVER: Final = Counter("aes_runtime_turns_taken_over_total", "Turns taken from workers that were gone.")
_RUNNING: Final = Gauge("aes_runtime_turns_running", "Turns that run in this process.")
_QUEUED: Final = Gauge("aes_runtime_turns_queued", "Turns in the queue, in the whole installation.")
_OPEN_WAITS: Final = Gauge("aes_runtime_open_actions", "Answers that turns wait for, in the whole installation.")
MODEL_CALLS: Final = Counter(
    "aes_runtime_model_calls_total", "Calls of models, with their retries one; by the type of the error.",
    ["model", "outcome"],
)  # fmt: skip
MODEL_SECONDS: Final = Histogram(
    "aes_runtime_model_call_duration_seconds", "Of calls of models, retries included.", ["model"], buckets=_LONG
)
MODEL_RETRIES: Final = Counter("aes_runtime_model_retries_total", "Calls of models that were made again.", ["provider"])
TOKENS: Final = Counter("aes_runtime_tokens_total", "Tokens as providers counted them.", ["model", "direction"])
TOOL_CALLS: Final = Counter(
    "aes_runtime_tool_calls_total", "Calls of tools that were made, by what came of them.", ["tool", "outcome"]
)
TOOL_SECONDS: Final = Histogram(
    "aes_runtime_tool_call_duration_seconds", "Of calls of tools.", ["tool"],
    buckets=(0.001, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100),
)  # fmt: skip

for _outcome in (*OutcomeKind, "lost"):
    # A counter whose first sample is 1 has never risen for Prometheus.
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
