"""One run: probes, and a fault after the other under them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Final

from libs.contracts.timestamps import parse_time
from tests.outages.probes import Probes
from tests.rolling_restart.client import Client
from tests.rolling_restart.targets import EmbeddedStack

FAULTS: Final = (
    "gateway-2",
    "runtime-2",
    "registry-2",
    "ingestion-all-2",
    "ingestion-streams-2",
    "artifacts-2",
    "timeline-2",
    "kafka",
    "postgres",
)
_UNDER_WAY: Final = 8
_QUIET_SECONDS: Final = 10.0
# Longer than any lease and session: what one fault has left must not be counted as the next one's.
_SETTLE_SECONDS: Final = 20.0
Say = Callable[[str], None]


@dataclass
class Fault:
    """``back``: seconds until the process was ready again. ``outages``: the slowest operation of each kind.

    ``turns_go_on``: seconds until the last of the turns that the process ran was restarted elsewhere; None without any.
    ``late``: the longest time, in seconds, for which the measuring process itself was not run.
    """

    part: str
    back: float
    outages: dict[str, float]
    turns_go_on: float | None
    late: float
    load: float


@dataclass
class Outcome:
    usual: dict[str, float]
    faults: list[Fault] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)

    def table(self) -> str:
        kinds = list(self.usual)
        rows = [
            ["killed", *kinds, "turns under way", "back", "own delay"],
            ["---"] * (len(kinds) + 4),
            ["nothing (median)", *(f"{self.usual[kind]:.1f}" for kind in kinds), "", "", ""],
        ]
        for fault in self.faults:
            went_on = "" if fault.turns_go_on is None else f"{fault.turns_go_on:.1f}"
            slowest = [f"{fault.outages[kind]:.1f}" if kind in fault.outages else "" for kind in kinds]
            rows.append([fault.part, *slowest, went_on, f"{fault.back:.1f}", f"{fault.late:.1f}"])
        return "\n".join("| " + " | ".join(row) + " |" for row in rows)


async def measure(target: EmbeddedStack, parts: Sequence[str], rounds: int, say: Say) -> Outcome:
    """Kills each part ``rounds`` times while the probes run."""
    client = Client(target.base_urls, target.api_key, longest_pause=0.25)
    probes = Probes(client)
    try:
        await probes.start()
        await asyncio.sleep(_QUIET_SECONDS)
        outcome = Outcome(usual=_usual(probes))
        for part in [part for _ in range(rounds) for part in parts]:
            fault = await _fault(target, client, probes, part)
            outcome.faults.append(fault)
            say(f"{part}: back after {fault.back:.1f} s, turns went on after {fault.turns_go_on}, {fault.outages}")
        await probes.stop()
        outcome.losses = probes.losses
        for kind, number in client.troubles.counts.items():
            say(f"{kind}: {number}, such as {client.troubles.examples[kind]}")
        return outcome
    finally:
        await client.close()


async def _fault(target: EmbeddedStack, client: Client, probes: Probes, part: str) -> Fault:
    pid = await asyncio.to_thread(target.pid, part)
    under_way = await probes.turns_under_way(_UNDER_WAY)
    os.kill(pid, signal.SIGKILL)
    killed, killed_at, probes.late = time.monotonic(), datetime.now(UTC), 0.0
    await asyncio.to_thread(target.wait_back, part, pid)
    back = time.monotonic() - killed
    await asyncio.sleep(max(_SETTLE_SECONDS - back, _SETTLE_SECONDS / 2))
    outages: dict[str, float] = {}
    for done in probes.done:
        if done.ended > killed:
            outages[done.kind] = max(outages.get(done.kind, 0.0), done.seconds)
    restarts = [at for turn in under_way for at in await _restarts(client, turn)]
    went_on = max(((at - killed_at).total_seconds() for at in restarts), default=None)
    return Fault(part, back, outages, went_on, probes.late, os.getloadavg()[0])


async def _restarts(client: Client, turn_id: str) -> list[datetime]:
    query = {"turn_id": turn_id, "type": "turn.restarted"}
    page = (await client.call("GET", "/events/", expect=200, params=query)).json()
    return [parse_time(event["time"]) for event in page["events"]]


def _usual(probes: Probes) -> dict[str, float]:
    seconds = {kind: [done.seconds for done in probes.done if done.kind == kind] for kind in probes.kinds}
    return {kind: median(found) if found else 0.0 for kind, found in seconds.items()}
