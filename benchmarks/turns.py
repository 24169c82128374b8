"""`aes bench turns`: compares the service with the reference app."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import orjson
import psutil

from benchmarks.load import Job, LoadFailed, Outcome, Scenario, Side
from benchmarks.machine import cpu_seconds, machine_seconds
from benchmarks.report import Result
from benchmarks.stack import BenchmarkStack, Children, Say, create_toolset, own_home, postgres_alone, whole_stack
from benchmarks.windows import NOISE_CORES, Window, document, tables
from deploy.local.files import tail
from deploy.local.home import Home

SIDES: Final[tuple[Side, ...]] = ("aes", "reference")
# Deferred work must count toward the window that caused it, not the next one.
_SETTLE_SECONDS: Final = 0.5
_AFTERMATH_SECONDS: Final = 0.3
_SHORT: Final[dict[str, Any]] = {"turns_per_session": 5, "opens_sessions": True}


@dataclass(frozen=True)
class Plan:
    scenarios: tuple[Scenario, ...]
    rounds: int
    seconds: float = 30.0
    """The maximum duration of a scenario's measured phase, for one system in one round."""

    def only(self, *names: str) -> "Plan":
        """Returns the plan with only the given scenarios, by default all. Raises ValueError for an unknown scenario."""
        known = [scenario.name for scenario in self.scenarios]
        if unknown := set(names) - set(known):
            raise ValueError(f"unknown scenario {', '.join(sorted(unknown))}; use any of {', '.join(known)}")
        return replace(self, scenarios=tuple(each for each in self.scenarios if each.name in (names or known)))


FULL: Final = Plan(
    scenarios=(
        Scenario("turns-1", 1, 200),
        Scenario("turns-16", 16, 960),
        Scenario("turns-64", 64, 1280),
        Scenario("short-1", 1, 200, **_SHORT),
        Scenario("short-16", 16, 960, **_SHORT),
        Scenario("stream-1", 1, 120, stream=True),
        Scenario("stream-16", 16, 480, stream=True),
        Scenario("short-stream-1", 1, 120, stream=True, **_SHORT),
        Scenario("react-16", 16, 480, model="stub-tool", tool="calculator"),
        Scenario("tool-turns-16", 16, 480, model="stub-lookup", tool="bench.lookup"),
        Scenario("responses-16", 16, 960, protocol="responses"),
        Scenario("chat-16", 16, 960, protocol="chat"),
        Scenario("chat-stream-1", 1, 120, stream=True, protocol="chat"),
    ),
    rounds=3,
)
QUICK: Final = Plan(tuple(scenario.shortened() for scenario in FULL.scenarios), rounds=1, seconds=10.0)


class LoadGenerator:
    def __init__(self, process: asyncio.subprocess.Process, children: Children) -> None:
        self._process, self._log = process, children.log
        self.process = psutil.Process(process.pid)

    @classmethod
    @asynccontextmanager
    async def started(cls, children: Children) -> AsyncIterator["LoadGenerator"]:
        async with children.started(["benchmarks.load"]) as process:
            yield cls(process, children)

    async def prepare(self, job: Job) -> None:
        """Warms up the system, and creates the job's sessions unless the job measures that."""
        await self._ask(orjson.dumps(asdict(job)))

    async def run(self) -> Outcome:
        """Runs the measured phase of the prepared job."""
        return Outcome(**await self._ask(b"go"))

    async def _ask(self, line: bytes) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()
        answer = await self._process.stdout.readline()
        if not answer:
            raise LoadFailed("The load generator ended:\n" + "\n".join(tail(self._log, 15)))
        document: dict[str, Any] = orjson.loads(answer)
        if "error" in document:
            raise LoadFailed(document["error"])
        return document


@dataclass(frozen=True)
class Bench:
    stack: BenchmarkStack
    load: LoadGenerator
    processes: dict[str, psutil.Process]
    ports: dict[Side, int]

    async def measure(self, plan: Plan, scenario: Scenario, side: Side, number: int) -> Window:
        await self.load.prepare(Job(side, self.ports[side], self.stack.api_key, plan.seconds, scenario))
        await asyncio.sleep(_SETTLE_SECONDS)
        began, before, machine = time.perf_counter(), cpu_seconds(self.processes), machine_seconds()
        outcome = await self.load.run()
        await asyncio.sleep(_AFTERMATH_SECONDS)
        after = cpu_seconds(self.processes)
        used = {name: after[name] - before[name] for name in after}
        elsewhere = (machine_seconds() - machine - sum(used.values())) / (time.perf_counter() - began)
        return Window.of(scenario.name, side, number, outcome, used, max(0.0, elsewhere))


@asynccontextmanager
async def open_bench(home: Home, children: Children, sides: Sequence[Side]) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as opened:
        stub, model_url = await opened.enter_async_context(children.model_stub())
        infrastructure = whole_stack(home, model_url) if "aes" in sides else postgres_alone(home)
        stack = await opened.enter_async_context(infrastructure)
        processes = dict(stack.processes)
        ports: dict[Side, int] = {}
        if "aes" in sides:
            await create_toolset(stack, model_url)
            ports["aes"] = stack.port
        if "reference" in sides:
            app = children.reference_app(stack.reference_database, model_url)
            processes["reference"], ports["reference"] = await opened.enter_async_context(app)
        load = await opened.enter_async_context(LoadGenerator.started(children))
        processes |= {"stub": stub, "load": load.process}
        yield Bench(stack, load, processes, ports)


async def run(plan: Plan, sides: Sequence[Side], say: Say) -> Result:
    """Measures the plan's scenarios on each side, in several rounds."""
    async with own_home("turns") as (home, children), open_bench(home, children, sides) as bench:
        say("  ".join(f"{name} {process.pid}" for name, process in bench.processes.items()))
        windows = [each async for each in _rounds(bench, plan, sides, say)]
    noisiest = max((each.elsewhere for each in windows), default=0.0)
    noise = f"Other processes kept up to {noisiest:.1f} cores busy. Measure on an idle machine."
    return Result(document(windows), tables(windows), [noise] if noisiest > NOISE_CORES else [])


async def _rounds(bench: Bench, plan: Plan, sides: Sequence[Side], say: Say) -> AsyncIterator[Window]:
    say("warming up")
    for side in sides:
        for scenario in plan.scenarios:
            await bench.measure(plan, scenario.shortened(), side, 0)
    for number, scenario, side in _order(plan, sides):
        measured = await bench.measure(plan, scenario, side, number)
        say(
            f"round {number}  {scenario.name:<14} {side:<10} {measured.rate:7.1f}/s  p50 {measured.p50:6.1f} ms"
            f"  elsewhere {measured.elsewhere:.2f} cores"
        )
        yield measured


def _order(plan: Plan, sides: Sequence[Side]) -> Iterator[tuple[int, Scenario, Side]]:
    for number in range(1, plan.rounds + 1):
        for scenario in plan.scenarios:
            for side in sides:
                yield number, scenario, side
