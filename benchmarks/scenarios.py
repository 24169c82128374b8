"""Scenarios of the turn benchmark and the service's targets."""

from dataclasses import dataclass, replace

from benchmarks.load.job import Protocol


@dataclass(frozen=True)
class Scenario:
    name: str
    concurrency: int
    turns: int
    """Measured turns in each round, on each side."""
    model: str = "stub"
    stream: bool = False
    tool: str = ""
    """The tool that every turn calls once: of the agent, and of the reference app where its agents have it."""
    protocol: Protocol = "native"
    turns_per_session: int = 20
    opens_sessions: bool = False
    """Whether sessions are created within the measured phase."""

    @property
    def agent_type(self) -> str:
        return "react_agent" if self.tool else "llm_agent"

    @property
    def warm_up(self) -> int:
        return max(10, 2 * self.concurrency)

    def shortened(self) -> "Scenario":
        return replace(self, turns=max(20, self.turns // 8, 2 * self.concurrency))


@dataclass(frozen=True)
class Plan:
    scenarios: tuple[Scenario, ...]
    rounds: int
    seconds: float = 30.0
    """Longest measured phase of one scenario, on one side, in one round."""

    def only(self, names: list[str]) -> "Plan":
        """The plan with the named scenarios alone; an unknown name is a ValueError."""
        known = [scenario.name for scenario in self.scenarios]
        if unknown := set(names) - set(known):
            raise ValueError(f"unknown scenario {', '.join(sorted(unknown))}; known are {', '.join(known)}")
        return replace(self, scenarios=tuple(scenario for scenario in self.scenarios if scenario.name in names))


FULL = Plan(
    scenarios=(
        Scenario("turns-1", 1, 200),
        Scenario("turns-16", 16, 960),
        Scenario("turns-64", 64, 1280),
        Scenario("short-1", 1, 200, turns_per_session=5, opens_sessions=True),
        Scenario("short-16", 16, 960, turns_per_session=5, opens_sessions=True),
        Scenario("stream-1", 1, 120, stream=True),
        Scenario("stream-16", 16, 480, stream=True),
        Scenario("short-stream-1", 1, 120, stream=True, turns_per_session=5, opens_sessions=True),
        Scenario("react-16", 16, 480, model="stub-tool", tool="calculator"),
        Scenario("tool-turns-16", 16, 480, model="stub-lookup", tool="bench.lookup"),
    ),
    rounds=3,
)
QUICK = Plan(
    scenarios=tuple(scenario.shortened() for scenario in FULL.scenarios),
    rounds=1,
    seconds=10.0,
)
