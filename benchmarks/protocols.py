"""Measures turns by OpenAI's API against those of the service's own: `python -m benchmarks.protocols`.

About five minutes, on a quiet machine. Starts a stack of its own beside the one in use. The native turns go on in open
sessions, with a history; each of the others begins a session.
"""

import argparse
import asyncio
import json
from statistics import median
from typing import Final

from benchmarks.figures import Window
from benchmarks.load.job import Protocol
from benchmarks.scenarios import Plan, Scenario
from benchmarks.stack import benchmark_home, remove
from benchmarks.turns import open_bench

_PROTOCOLS: Final[tuple[Protocol, ...]] = ("native", "responses", "chat")


def plan(turns: int, streams: int) -> Plan:
    blocking = (Scenario(f"{name}-16", 16, turns, protocol=name) for name in _PROTOCOLS)
    streamed = (Scenario(f"{name}-stream-1", 1, streams, stream=True, protocol=name) for name in _PROTOCOLS)
    return Plan(scenarios=(*blocking, *streamed), rounds=1)


async def measure(chosen: Plan, rounds: int) -> dict[str, dict[str, float]]:
    """Returns medians over the rounds: turns per second and their ratio, and milliseconds to the first text."""
    home = benchmark_home("protocols-benchmark")
    await asyncio.to_thread(remove, home)
    home.create()
    measured: dict[str, list[Window]] = {scenario.name: [] for scenario in chosen.scenarios}
    try:
        async with open_bench(home, ("aes",)) as bench:
            for number in range(rounds + 1):
                for scenario in chosen.scenarios:
                    window = await bench.measure(chosen, scenario, "aes", number)
                    if number:
                        measured[scenario.name].append(window)
    finally:
        await asyncio.shield(asyncio.to_thread(remove, home))
    return {name: _figures(name, measured) for name in measured}


def _figures(name: str, measured: dict[str, list[Window]]) -> dict[str, float]:
    kind = name.partition("-")[2]
    pairs = list(zip(measured[name], measured[f"native-{kind}"], strict=True))
    if kind == "16":
        rates = {"turns_per_second": round(median(own.rate for own, _ in pairs), 1)}
        return {**rates, "ratio": round(median(own.rate / native.rate for own, native in pairs), 3)}
    later = median((own.first_text_p50 or 0.0) - (native.first_text_p50 or 0.0) for own, native in pairs)
    return {
        "first_text_ms": round(median(own.first_text_p50 or 0.0 for own, _ in pairs), 2),
        "later_ms": round(later, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure turns by OpenAI's API against native ones.")
    parser.add_argument("--turns", type=int, default=960, help="turns of a window at 16 (%(default)s)")
    parser.add_argument("--streams", type=int, default=120, help="streams of a window at 1 (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (%(default)s)")
    options = parser.parse_args()
    figures = asyncio.run(measure(plan(options.turns, options.streams), options.rounds))
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
