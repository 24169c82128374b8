"""What the runtime tells Prometheus."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from services.runtime.domain.turns import Ending

_ENDED: Final = Counter("aes_runtime_turns_ended_total", "Executions by how they ended here.", ["outcome"])
_SECONDS: Final = Histogram(
    "aes_runtime_turn_seconds",
    "From the claim to the committed end.",
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000),
)
_TOKENS: Final = Counter("aes_runtime_tokens_total", "Tokens of completed turns.", ["direction"])
_TAKEN_OVER: Final = Counter("aes_runtime_turns_taken_over_total", "Turns taken from workers that were gone.")
_RUNNING: Final = Gauge("aes_runtime_turns_running", "Turns that run in this process.")
_QUEUED: Final = Gauge("aes_runtime_turns_queued", "Turns that wait, in the whole installation.")


class PrometheusMetrics:
    def ended(self, ending: Ending, *, won: bool, seconds: float) -> None:
        _ENDED.labels(ending.kind.value if won else "lost").inc()
        _SECONDS.observe(seconds)
        if won and ending.usage is not None:
            _TOKENS.labels("input").inc(ending.usage["input_tokens"])
            _TOKENS.labels("output").inc(ending.usage["output_tokens"])

    def looked(self, *, running: int, queued: int) -> None:
        _RUNNING.set(running)
        _QUEUED.set(queued)

    def taken_over(self, turns: int) -> None:
        _TAKEN_OVER.inc(turns)
