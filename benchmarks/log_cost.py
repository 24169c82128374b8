"""Measures what the log of the timeline costs each turn: `python -m benchmarks.log_cost`, six quiet minutes.

Windows of turns with the log's process running and stopped take turns, so that a machine whose speed drifts gives both
the same. What the process missed while it was stopped it catches up with between two windows.
"""

import argparse
import asyncio
import json
import signal
from collections.abc import AsyncIterator, Sequence
from statistics import mean, median, stdev
from typing import Final

import psutil

from benchmarks.cpu import cpu_seconds
from benchmarks.divided_gateway import LOG
from benchmarks.figures import NOT_THE_STACK, Window
from benchmarks.scenarios import FULL, Plan, Scenario
from benchmarks.stack import benchmark_home, remove
from benchmarks.turns import Bench, open_bench

_SUPERVISOR: Final = "benchmarks.divided_gateway"
_REST_SECONDS: Final = 0.5
_RESTS_WITH: Final = 0.02
"""CPU seconds in such a rest of a process that has caught up."""


async def pairs(bench: Bench, scenario: Scenario, count: int) -> AsyncIterator[tuple[Window, Window]]:
    """A window with the log and one without, ``count`` times, in the one order and in the other."""
    log = bench.processes[LOG]
    await _with_log(bench, scenario)
    for number in range(count):
        if number % 2:
            yield await _with_log(bench, scenario), await _without(bench, scenario, log)
        else:
            without = await _without(bench, scenario, log)
            yield await _with_log(bench, scenario), without


async def _without(bench: Bench, scenario: Scenario, log: psutil.Process) -> Window:
    log.send_signal(signal.SIGSTOP)
    try:
        return await _with_log(bench, scenario)
    finally:
        log.send_signal(signal.SIGCONT)
        await _has_caught_up(log)


async def _with_log(bench: Bench, scenario: Scenario) -> Window:
    return await bench.measure(Plan((scenario,), rounds=1), scenario, "aes", 1)


async def _has_caught_up(log: psutil.Process) -> None:
    used = _REST_SECONDS
    while used > _RESTS_WITH:
        before = cpu_seconds({LOG: log})[LOG]
        await asyncio.sleep(_REST_SECONDS)
        used = cpu_seconds({LOG: log})[LOG] - before


def figures(measured: Sequence[tuple[Window, Window]]) -> dict[str, float | list[float]]:
    """Milliseconds of CPU per turn, of the whole stack unless a process is named."""
    differences = [with_log.stack_cpu - without.stack_cpu for with_log, without in measured]
    return {
        "without": round(median(without.stack_cpu for _, without in measured), 2),
        "with": round(median(with_log.stack_cpu for with_log, _ in measured), 2),
        "mean_of_differences": round(mean(differences), 3),
        "median_of_differences": round(median(differences), 3),
        "standard_error": round(stdev(differences) / len(differences) ** 0.5, 3),
        "differences": [round(difference, 2) for difference in differences],
        **{
            f"of_{name}": round(mean(one.cpu[name] - other.cpu[name] for one, other in measured), 3)
            for name in sorted({*measured[0][0].cpu} - NOT_THE_STACK)
        },
        "turns_per_second": round(median(with_log.rate for with_log, _ in measured), 1),
        "elsewhere": round(median(with_log.elsewhere for with_log, _ in measured), 2),
    }


async def measure(count: int, turns: int) -> dict[str, float | list[float]]:
    home = benchmark_home("log-benchmark")
    await asyncio.to_thread(remove, home)
    home.create()
    (known,) = FULL.only(["turns-16"]).scenarios
    scenario = Scenario(known.name, known.concurrency, turns)
    try:
        async with open_bench(home, ("aes",), _SUPERVISOR) as bench:
            return figures([pair async for pair in pairs(bench, scenario, count)])
    finally:
        await asyncio.shield(asyncio.to_thread(remove, home))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what the log of the timeline costs each turn.")
    parser.add_argument("--pairs", type=int, default=20, help="of windows (%(default)s)")
    parser.add_argument("--turns", type=int, default=1200, help="of a window (%(default)s)")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options.pairs, options.turns)), indent=2))


if __name__ == "__main__":
    main()
