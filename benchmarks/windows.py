"""Computes a benchmark's figures, and compares them with the targets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Final

from benchmarks.load import Outcome, Side
from benchmarks.report import Record, paired_ratio, percentile

_OWN_WORK: Final = ("gateway", "runtime")
_NOT_THE_STACK: Final = frozenset({"stub", "load", "reference"})
_FIGURES: Final = ("rate", "p50", "p95", "p99", "first_text_p50", "first_text_p95", "creation_p50")
NOISE_CORES: Final = 0.2
"""If other processes keep more cores busy, the figures are less reliable."""


@dataclass(frozen=True)
class Window:
    """One system's results for a scenario in one round. Times are in milliseconds."""

    scenario: str
    side: Side
    round: int
    turns: int
    rate: float
    """Turns per second."""
    p50: float
    p95: float
    p99: float
    first_text_p50: float | None
    first_text_p95: float | None
    cpu: Mapping[str, float] = field(default_factory=dict)
    """CPU time per turn, by process."""
    elsewhere: float = 0.0
    """The number of cores that other processes kept busy."""
    creation_p50: float | None = None
    """The time to create a session during the measurement."""

    @classmethod
    def of(
        cls, scenario: str, side: Side, number: int, seen: Outcome, cpu_seconds: Mapping[str, float], elsewhere: float
    ) -> "Window":
        turns = len(seen.latencies)
        p50, p95, p99 = (percentile(seen.latencies, each) for each in (50, 95, 99))
        first_p50, first_p95 = (percentile(seen.first_texts, each) if seen.first_texts else None for each in (50, 95))
        creation = percentile(seen.creations, 50) if seen.creations else None
        cpu = {name: 1000 * used / turns for name, used in cpu_seconds.items()}
        rate = turns / seen.seconds
        return cls(
            scenario, side, number, turns, rate, p50, p95, p99, first_p50, first_p95, cpu, elsewhere, creation
        )  # fmt: skip

    @property
    def own_cpu(self) -> float:
        """The CPU time of gateway and runtime together, in ms per turn."""
        return sum(self.cpu.get(name, 0.0) for name in _OWN_WORK)

    @property
    def stack_cpu(self) -> float:
        """The CPU time of everything that `aes up` starts, in ms per turn."""
        return sum(used for name, used in self.cpu.items() if name not in _NOT_THE_STACK)

    @property
    def side_cpu(self) -> float:
        """The CPU time of the stack or the reference app, in ms per turn."""
        return self.stack_cpu if self.side == "aes" else self.cpu.get("reference", 0.0)


def typical(windows: Sequence[Window], figure: str) -> float | None:
    """Returns a figure's median over the rounds, or None if the figure wasn't measured."""
    values = [value for each in windows if (value := getattr(each, figure)) is not None]
    return median(values) if values else None


def typical_cpu(windows: Sequence[Window]) -> dict[str, float]:
    names = dict.fromkeys(name for each in windows for name in each.cpu)
    return {name: median(each.cpu.get(name, 0.0) for each in windows) for name in names}


def ratio(windows: Sequence[Window], scenario: str, figure: str) -> float | None:
    """Returns the ratio of the service's figure to the reference app's."""
    of: dict[tuple[str, int], Any] = {
        (each.side, each.round): getattr(each, figure) for each in windows if each.scenario == scenario
    }
    return paired_ratio(of, "aes")


@dataclass(frozen=True)
class Target:
    """A performance target. If ``relative``, the goal is a ratio to the reference app's figure."""

    name: str
    scenario: str
    figure: str
    goal: float
    at_least: bool = False
    relative: bool = True

    def value(self, windows: Sequence[Window]) -> float | None:
        if self.relative:
            return ratio(windows, self.scenario, self.figure)
        return typical([each for each in windows if (each.scenario, each.side) == (self.scenario, "aes")], self.figure)

    def met_by(self, value: float) -> bool:
        return value >= self.goal if self.at_least else value <= self.goal

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.goal:g}{' times' if self.relative else ''}"


TARGETS: Final = (
    Target("turns/s at concurrency 16", "turns-16", "rate", 2.5, at_least=True),
    Target("p50 at concurrency 1", "turns-1", "p50", 0.8),
    Target("first token at concurrency 1: p50", "stream-1", "first_text_p50", 1.0),
    Target("first token at concurrency 16: p50", "stream-16", "first_text_p50", 1.0),
    Target("react turns/s at concurrency 16", "react-16", "rate", 2.5, at_least=True),
    Target("turns/s with an HTTP tool at concurrency 16", "tool-turns-16", "rate", 3.0, at_least=True),
    Target("CPU of gateway + runtime at concurrency 16: ms per turn", "turns-16", "own_cpu", 4.0, relative=False),
    Target("short conversations: turns/s at concurrency 16", "short-16", "rate", 3.0, at_least=True),
    Target("short conversations: p50 at concurrency 1", "short-1", "p50", 0.9),
    Target("short conversations: p50 to first token at concurrency 1", "short-stream-1", "first_text_p50", 1.1),
    Target("session creation at concurrency 1: p50 in ms", "short-1", "creation_p50", 6.0, relative=False),
    Target("CPU of the stack at concurrency 16: ms per short turn", "short-16", "stack_cpu", 4.0, relative=False),
    Target("short conversations: CPU of the stack at concurrency 16", "short-16", "side_cpu", 0.5),
)


def document(windows: Sequence[Window]) -> dict[str, Any]:
    scenarios: dict[str, dict[str, Any]] = {}
    for scenario, side, group in _groups(windows):
        summary = {figure: typical(group, figure) for figure in _FIGURES} | {"cpu_ms_per_turn": typical_cpu(group)}
        scenarios.setdefault(scenario, {"name": scenario})[side] = summary
    for scenario, found in scenarios.items():
        found["ratios"] = {figure: ratio(windows, scenario, figure) for figure in _FIGURES}
    targets = [
        {"name": target.name, "goal": target.goal, "at_least": target.at_least, "value": value, "met": met}
        for target in TARGETS
        for value in [target.value(windows)]
        for met in [None if value is None else target.met_by(value)]
    ]
    return {"scenarios": [*scenarios.values()], "targets": targets, "windows": [asdict(each) for each in windows]}


def tables(windows: Sequence[Window]) -> dict[str, list[Record]]:
    speed: list[Record] = []
    cpu: list[Record] = []
    for scenario, side, group in _groups(windows):
        used = typical_cpu(group)
        stack = typical(group, "stack_cpu") if side == "aes" else None
        cpu.append({"scenario": scenario, "side": side, **used, "stack": stack, "sum": sum(used.values())})
        speed.append({"scenario": scenario, "side": side, **{figure: typical(group, figure) for figure in _FIGURES}})
        ratios = {figure: ratio(windows, scenario, figure) for figure in _FIGURES}
        if side == "reference" and any(ratios.values()):
            speed.append({"side": "ratio", **ratios})
    targets: list[Record] = [
        {"target": target.name, "goal": str(target), "measured": value, "": "met" if target.met_by(value) else "missed"}
        for target in TARGETS
        if (value := target.value(windows)) is not None
    ]
    return {"Medians over the rounds; times in ms": speed, "CPU, ms per turn": cpu, "Targets": targets}


def _groups(windows: Sequence[Window]) -> Iterator[tuple[str, Side, list[Window]]]:
    for scenario, side in dict.fromkeys((each.scenario, each.side) for each in windows):
        yield scenario, side, [each for each in windows if (each.scenario, each.side) == (scenario, side)]
