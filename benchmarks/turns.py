"""`aes bench turns`: the service and the reference app, measured in turns in one run."""

import asyncio
import fcntl
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass

import psutil

from benchmarks.children import Children, LoadGenerator
from benchmarks.cpu import cpu_seconds, machine_seconds
from benchmarks.figures import Window, window
from benchmarks.load.job import Job, Side
from benchmarks.scenarios import Plan, Scenario
from benchmarks.stack import SUPERVISOR, benchmark_home, create_toolset, postgres_alone, remove, whole_stack
from deploy.local.errors import StackError
from deploy.local.home import Home

Say = Callable[[str], None]
SIDES: tuple[Side, ...] = ("aes", "reference")
# Deferred work of one window must be counted there and not burden the next one.
_SETTLE_SECONDS = 0.5
_AFTERMATH_SECONDS = 0.3


@dataclass(frozen=True)
class Bench:
    load: LoadGenerator
    processes: dict[str, psutil.Process]
    ports: dict[Side, int]
    api_key: str

    async def measure(self, plan: Plan, scenario: Scenario, side: Side, number: int) -> Window:
        job = Job(
            side=side,
            port=self.ports[side],
            api_key=self.api_key,
            model=scenario.model,
            agent_type=scenario.agent_type,
            stream=scenario.stream,
            tool=scenario.tool,
            concurrency=scenario.concurrency,
            turns=scenario.turns,
            seconds=plan.seconds,
            warm_up=scenario.warm_up,
            turns_per_session=scenario.turns_per_session,
            opens_sessions=scenario.opens_sessions,
            protocol=scenario.protocol,
        )
        await self.load.prepare(job)
        await asyncio.sleep(_SETTLE_SECONDS)
        began, before, machine = time.perf_counter(), cpu_seconds(self.processes), machine_seconds()
        outcome = await self.load.run()
        await asyncio.sleep(_AFTERMATH_SECONDS)
        after = cpu_seconds(self.processes)
        used = {name: after[name] - before[name] for name in after}
        busy = machine_seconds() - machine - sum(used.values())
        return window(
            scenario.name,
            side,
            number,
            seconds=outcome.seconds,
            latencies=outcome.latencies,
            first_texts=outcome.first_texts,
            creations=outcome.creations,
            cpu_seconds=used,
            elsewhere=max(0.0, busy / (time.perf_counter() - began)),
        )


@asynccontextmanager
async def open_bench(home: Home, sides: tuple[Side, ...], supervisor: str = SUPERVISOR) -> AsyncIterator[Bench]:
    children = Children(f"{home.root}:benchmark", home.log_of("benchmark"))
    children.end_left_behind()
    async with AsyncExitStack() as opened:
        stub, model_url = await opened.enter_async_context(children.model_stub())
        infrastructure = whole_stack(home, model_url, supervisor) if "aes" in sides else postgres_alone(home)
        stack = await opened.enter_async_context(infrastructure)
        if "aes" in sides:
            await create_toolset(stack, model_url)
        processes = dict(stack.processes)
        ports: dict[Side, int] = {"aes": stack.gateway_port}
        if "reference" in sides:
            app = children.reference_app(stack.reference_database, model_url)
            processes["reference"], ports["reference"] = await opened.enter_async_context(app)
        load = await opened.enter_async_context(children.load_generator())
        processes |= {"stub": stub, "load": load.process}
        yield Bench(load, processes, ports, stack.api_key)


async def run(plan: Plan, sides: tuple[Side, ...], say: Say) -> list[Window]:
    """Measure the plan's scenarios on the sides, round after round; everything that was started is ended."""
    cancel_on_termination()
    home = benchmark_home()
    with _alone(home):
        await asyncio.to_thread(remove, home)
        home.create()
        failed = False
        try:
            async with open_bench(home, sides) as bench:
                say("  ".join(f"{name} {process.pid}" for name, process in bench.processes.items()))
                return [each async for each in _rounds(bench, plan, sides, say)]
        except Exception:
            failed = True
            say(f"The logs stay in {home.logs} until the next run.")
            raise
        finally:
            if not failed:
                await asyncio.shield(asyncio.to_thread(remove, home))


async def _rounds(bench: Bench, plan: Plan, sides: tuple[Side, ...], say: Say) -> AsyncIterator[Window]:
    say("warming up")
    for side in sides:
        for scenario in plan.scenarios:
            await bench.measure(plan, scenario.shortened(), side, 0)
    for number in range(1, plan.rounds + 1):
        for scenario in plan.scenarios:
            for side in sides:
                measured = await bench.measure(plan, scenario, side, number)
                say(
                    f"round {number}  {scenario.name:<14} {side:<10} {measured.rate:7.1f}/s  p50 {measured.p50:6.1f} ms"
                    f"  elsewhere {measured.elsewhere:.2f} cores"
                )
                yield measured


def cancel_on_termination() -> None:
    """Has SIGTERM cancel the task, so that what it started is ended and removed."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    with (home.root.parent / "benchmark.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError("Another benchmark runs in this home.", "Wait for it to end.") from None
        yield
