"""One run: load, restarts under it, and what became of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from tests.rolling_restart.checks import problems
from tests.rolling_restart.client import Client
from tests.rolling_restart.load import Load
from tests.rolling_restart.spread import Spread
from tests.rolling_restart.targets import SERVICES, Target

_OUTBOX_SECONDS = 180.0
Say = Callable[[str], None]
Kill = Literal["none", "second", "all"]
"""Chooses the processes to kill; `second`: the second one of each service."""


@dataclass(frozen=True)
class Plan:
    """``services`` are restarted in this order, ``rounds`` times, one process after the other."""

    services: tuple[str, ...] = SERVICES
    left_alone: frozenset[str] = frozenset()
    """Processes that are not restarted, though their service is."""
    rounds: int = 1
    talkers: int = 8
    pause: float = 0.3
    between: float = 2.0
    kill: Kill = "none"
    settle: float = 5.0
    """Seconds of load before the first restart and after the last one."""


@dataclass(frozen=True)
class Restart:
    process: str
    began: float
    seconds: float


@dataclass
class Outcome:
    """The report of a run, and whether it passed."""

    load: Load
    restarts: list[Restart]
    spread: Spread
    quiet: float
    """Until when nothing was restarted yet, as a reading of the monotonic clock."""
    problems: list[str] = field(default_factory=list)

    def longest_stall(self, restart: Restart) -> float:
        """Seconds of the slowest turn that was under way during that restart."""
        end = restart.began + restart.seconds
        during = [
            turn.seconds for turn in self.load.turns if turn.began < end and turn.began + turn.seconds > restart.began
        ]
        return max(during, default=0.0)

    def usual_seconds(self) -> float:
        before = [turn.seconds for turn in self.load.turns if turn.began + turn.seconds < self.quiet]
        return median(before) if before else 0.0

    def summary(self) -> dict[str, Any]:
        load = self.load
        seconds = sorted(turn.seconds for turn in load.turns)
        return {
            "turns": len(seconds),
            "usual_turn_seconds": round(self.usual_seconds(), 3),
            "turn_seconds_p99": round(seconds[int(len(seconds) * 0.99)], 3) if seconds else None,
            "slowest_turn_seconds": round(seconds[-1], 3) if seconds else None,
            "ingestions": len(load.ingestions),
            "documents": sum(len(ingestion.words) for ingestion in load.ingestions),
            "artifacts": len(load.uploads),
            "restarts": {
                f"{number} {each.process}": {
                    "seconds": round(each.seconds, 1),
                    "longest_turn_seconds": round(self.longest_stall(each), 2),
                }
                for number, each in enumerate(self.restarts, 1)
            },
            "troubles": dict(load.client.troubles.counts),
            "answers_by_gateway": dict(load.client.answered),
            "work_by_process": dict(self.spread.done),
            "processes_without_metrics": sorted(self.spread.unread),
            "bus_looked_at": self.spread.target.kafka is not None,
            "problems": self.problems,
        }


async def roll(target: Target, plan: Plan, say: Say) -> Outcome:
    """Restart everything once or more under load; the outcome says what went wrong, if anything did."""
    client = Client(target.base_urls, target.api_key)
    load = Load(client, plan.talkers, plan.pause)
    spread = Spread(target)
    processes = [each for each in await asyncio.to_thread(target.processes) if each[0] in plan.services]
    processes.sort(key=lambda each: plan.services.index(each[0]))
    try:
        load.start()
        await asyncio.sleep(plan.settle)
        to_restart = [each for each in processes if each[1] not in plan.left_alone]
        outcome = Outcome(load, [], spread, quiet=time.monotonic())
        usual = outcome.usual_seconds()
        say(f"{len(load.turns)} turns so far, {usual:.2f} s each; restarting {len(to_restart)} processes")
        for number in range(plan.rounds):
            for service, process in to_restart:
                await asyncio.to_thread(spread.before_end_of, service, process)
                kill = plan.kill == "all" or (plan.kill == "second" and process.endswith("2"))
                outcome.restarts.append(await _restarted(target, process, kill=kill))
                await asyncio.sleep(plan.between)
                say(_describe(outcome, number, process))
        await asyncio.sleep(plan.settle)
        await load.stop()
        say(f"load ended: {len(load.turns)} turns, {len(load.ingestions)} ingestions, {len(load.uploads)} artifacts")
        outcome.problems += await _outbox(spread, processes)
        for service, process in processes:
            await asyncio.to_thread(spread.before_end_of, service, process)
        if spread.letters:
            outcome.problems.append(f"{spread.letters:g} dead letters")
        outcome.problems += [f"{process} did nothing" for process in spread.idle(processes)]
        outcome.problems += await problems(load, target.kafka, killed=plan.kill != "none")
        return outcome
    finally:
        await client.close()


async def _restarted(target: Target, process: str, *, kill: bool) -> Restart:
    began = time.monotonic()
    await asyncio.to_thread(target.kill if kill else target.restart, process)
    return Restart(process, began, time.monotonic() - began)


def _describe(outcome: Outcome, number: int, process: str) -> str:
    load, restart = outcome.load, outcome.restarts[-1]
    waiting = max((time.monotonic() - began for began in load.underway.values()), default=0.0)
    stall = max(outcome.longest_stall(restart), waiting)
    losses = f", LOST: {len(load.losses)}" if load.losses else ""
    return (
        f"round {number + 1}: {process:<20} back after {restart.seconds:4.1f} s, longest turn {stall:4.1f} s; "
        f"{len(load.turns)} turns, {len(load.ingestions)} ingestions, {len(load.uploads)} artifacts{losses}"
    )


async def _outbox(spread: Spread, processes: list[tuple[str, str]]) -> list[str]:
    """Events that nobody has sent three minutes after the end."""
    deadline = time.monotonic() + _OUTBOX_SECONDS
    while True:
        waiting = {process: await asyncio.to_thread(spread.waiting, process) for _, process in processes}
        left = {process: count for process, count in waiting.items() if count}
        if not left:
            unknown = all(count is None for count in waiting.values()) and not spread.unread
            return ["no process tells what waits in its outbox"] if unknown else []
        if time.monotonic() > deadline:
            return [f"{count:g} events wait in the outbox, as {process} counts them" for process, count in left.items()]
        await asyncio.sleep(1)
