"""The arithmetic: from single turns to figures of a window, from windows to ratios, from ratios to targets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.load.job import Side

OWN_WORK = ("gateway", "runtime")
NOT_THE_STACK = frozenset({"stub", "load", "reference"})


def percentile(values: Sequence[float], percent: float) -> float:
    """Linear between the two nearest ranks; `values` in any order, at least one."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@dataclass(frozen=True)
class Window:
    """One scenario, on one side, in one round. Times are milliseconds."""

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
    """CPU per turn, by process."""
    elsewhere: float = 0.0
    """Cores that were busy with something that is not part of the measurement."""
    creation_p50: float | None = None
    """Milliseconds in which a session was created, while the clock ran."""

    @property
    def own_cpu(self) -> float:
        """CPU of gateway and runtime together, in ms per turn."""
        return sum(self.cpu.get(name, 0.0) for name in OWN_WORK)

    @property
    def stack_cpu(self) -> float:
        """CPU of everything that `aes up` starts, in ms per turn."""
        return sum(used for name, used in self.cpu.items() if name not in NOT_THE_STACK)

    @property
    def side_cpu(self) -> float:
        """CPU of the side that was measured, in ms per turn: of the stack, or of the reference app's process alone."""
        return self.stack_cpu if self.side == "aes" else self.cpu.get("reference", 0.0)


def window(
    scenario: str,
    side: Side,
    number: int,
    *,
    seconds: float,
    latencies: Sequence[float],
    first_texts: Sequence[float],
    creations: Sequence[float] = (),
    cpu_seconds: Mapping[str, float],
    elsewhere: float,
) -> Window:
    turns = len(latencies)
    return Window(
        scenario=scenario,
        side=side,
        round=number,
        turns=turns,
        rate=turns / seconds,
        p50=percentile(latencies, 50),
        p95=percentile(latencies, 95),
        p99=percentile(latencies, 99),
        first_text_p50=percentile(first_texts, 50) if first_texts else None,
        first_text_p95=percentile(first_texts, 95) if first_texts else None,
        creation_p50=percentile(creations, 50) if creations else None,
        cpu={name: 1000 * used / turns for name, used in cpu_seconds.items()},
        elsewhere=elsewhere,
    )


def typical(windows: Sequence[Window], figure: str) -> float | None:
    """The median of a figure over the rounds, None when it was not measured."""
    values = [value for each in windows if (value := getattr(each, figure)) is not None]
    return median(values) if values else None


def typical_cpu(windows: Sequence[Window]) -> dict[str, float]:
    names = dict.fromkeys(name for each in windows for name in each.cpu)
    return {name: median(each.cpu.get(name, 0.0) for each in windows) for name in names}


def ratio(windows: Sequence[Window], scenario: str, figure: str) -> float | None:
    """The median over the rounds of the service's figure divided by the reference app's of the same round."""
    of = {(each.side, each.round): getattr(each, figure) for each in windows if each.scenario == scenario}
    ratios = [
        value / of["reference", number]
        for (side, number), value in of.items()
        if side == "aes" and value is not None and of.get(("reference", number))
    ]
    return median(ratios) if ratios else None


@dataclass(frozen=True)
class Target:
    name: str
    scenario: str
    figure: str
    goal: float
    at_least: bool
    relative: bool = True
    """Whether the goal is a ratio to the reference app."""

    def value(self, windows: Sequence[Window]) -> float | None:
        if self.relative:
            return ratio(windows, self.scenario, self.figure)
        own = [each for each in windows if each.scenario == self.scenario and each.side == "aes"]
        return typical(own, self.figure)

    def met_by(self, value: float) -> bool:
        return value >= self.goal if self.at_least else value <= self.goal


TARGETS = (
    Target("turns/s at 16", "turns-16", "rate", 2.5, at_least=True),
    Target("p50 at 1", "turns-1", "p50", 0.8, at_least=False),
    Target("first token at 1, p50", "stream-1", "first_text_p50", 1.0, at_least=False),
    Target("first token at 16, p50", "stream-16", "first_text_p50", 1.0, at_least=False),
    Target("react turns/s at 16", "react-16", "rate", 2.5, at_least=True),
    Target("turns/s with an HTTP tool at 16", "tool-turns-16", "rate", 3.0, at_least=True),
    Target("CPU of gateway + runtime at 16, ms per turn", "turns-16", "own_cpu", 4.0, at_least=False, relative=False),
    Target("short conversations: turns/s at 16", "short-16", "rate", 3.0, at_least=True),
    Target("short conversations: p50 at 1", "short-1", "p50", 0.9, at_least=False),
    Target("short conversations: first token at 1, p50", "short-stream-1", "first_text_p50", 1.1, at_least=False),
    Target("creation of a session at 1, p50 in ms", "short-1", "creation_p50", 6.0, at_least=False, relative=False),
    Target("CPU of the stack at 16, ms per short turn", "short-16", "stack_cpu", 4.0, at_least=False, relative=False),
    Target("short conversations: CPU of the stack at 16", "short-16", "side_cpu", 0.5, at_least=False),
)
