"""One run: load, restarts under it, and what became of it."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from tests.rolling_restart.checks import errors_of_the_service, problems
from tests.rolling_restart.client import Client
from tests.rolling_restart.load import Load
from tests.rolling_restart.spread import Spread
from tests.rolling_restart.targets import SERVICES, Target

_OUTBOX_SECONDS = 180.0
# Every third drain is one whose processes are killed before they have given up their work.
_DRAIN_GRACE = (12.0, 12.0, 1.0)
_BUSY = "while True: pass"
Say = Callable[[str], None]
Kill = Literal["none", "second", "all"]
"""Chooses the processes to kill; `second`: the second one of each service."""


@dataclass(frozen=True)
class Plan:
    """``services`` are restarted in this order, ``rounds`` times, one process after the other.

    ``drain`` ends them as a node's drain does: all services at once, and of each the next replica when the one before
    is back. A process that outlives its grace is killed.
    """

    services: tuple[str, ...] = SERVICES
    left_alone: frozenset[str] = frozenset()
    """Processes that are not restarted, though their service is."""
    rounds: int = 1
    most_seconds: float = math.inf
    """No round begins later than this."""
    talkers: int = 8
    pause: float = 0.3
    between: float = 2.0
    kill: Kill = "none"
    drain: bool = False
    busy: int = 0
    """Endless loops that take the cores meanwhile."""
    settle: float = 5.0
    """Seconds of load before the first restart and after the last one."""

    @property
    def kills(self) -> bool:
        return self.kill != "none" or self.drain


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
        outcome = Outcome(load, [], spread, quiet=time.monotonic())
        to_restart = [each for each in processes if each[1] not in plan.left_alone]
        usual = outcome.usual_seconds()
        say(f"{len(load.turns)} turns so far, {usual:.2f} s each; restarting {len(to_restart)} processes")
        with _busy_loops(plan.busy):
            for number in range(plan.rounds):
                if time.monotonic() - outcome.quiet > plan.most_seconds:
                    break
                await _round(outcome, target, plan, number, to_restart, say)
        await asyncio.sleep(plan.settle)
        await load.stop()
        say(f"load ended: {len(load.turns)} turns, {len(load.ingestions)} ingestions, {len(load.uploads)} artifacts")
        outcome.problems += await _outbox(spread, processes)
        for service, process in processes:
            await spread.before_end_of(service, process)
        if spread.letters:
            outcome.problems.append(f"{spread.letters:g} dead-lettered messages")
        outcome.problems += [f"{process} did nothing" for process in spread.idle(processes)]
        outcome.problems += await problems(load, target.kafka, killed=plan.kills)
        outcome.problems += await errors_of_the_service(client)
        outcome.problems += await asyncio.to_thread(target.errors_logged)
        return outcome
    finally:
        await client.close()


async def _round(
    outcome: Outcome, target: Target, plan: Plan, number: int, to_restart: list[tuple[str, str]], say: Say
) -> None:
    async def in_turn(those: list[tuple[str, str]]) -> None:
        for service, process in those:
            await outcome.spread.before_end_of(service, process)
            began = time.monotonic()
            await asyncio.to_thread(_restart(target, plan, number, process))
            outcome.restarts.append(Restart(process, began, time.monotonic() - began))
            await asyncio.sleep(plan.between)
            say(_describe(outcome, number, process))

    if plan.drain:
        # Of one service the processes of a role are alike, and none is ended while its like is away.
        roles = {name.removesuffix("-2") for _, name in to_restart}
        chains = [[each for each in to_restart if each[1].removesuffix("-2") == role] for role in sorted(roles)]
        await asyncio.gather(*map(in_turn, chains))
    else:
        await in_turn(to_restart)


def _restart(target: Target, plan: Plan, number: int, process: str) -> Callable[[], None]:
    if plan.drain:
        return lambda: target.drain(process, _DRAIN_GRACE[number % len(_DRAIN_GRACE)])
    if plan.kill == "all" or (plan.kill == "second" and process.endswith("2")):
        return lambda: target.kill(process)
    return lambda: target.restart(process)


@contextmanager
def _busy_loops(number: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _describe(outcome: Outcome, number: int, process: str) -> str:
    load, restart = outcome.load, next(each for each in reversed(outcome.restarts) if each.process == process)
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
