"""Runs something under the load of clients, and finds out what was lost or done twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from tests.cluster.cluster import Installation, ScenarioFailed
from tests.rolling_restart.checks import problems
from tests.rolling_restart.client import Client
from tests.rolling_restart.load import Load

_SETTLE_SECONDS = 5.0
_OUTBOX_SECONDS = 60.0


@dataclass(frozen=True)
class Figures:
    turns: int
    ingestions: int
    artifacts: int
    usual_seconds: float
    slowest_seconds: float
    troubles: dict[str, int]
    """Disturbances that clients noticed and got over, by kind."""

    def __str__(self) -> str:
        seconds = f"usually {self.usual_seconds:.1f} s each, the slowest {self.slowest_seconds:.1f} s"
        troubles = f"; got over: {self.troubles}" if self.troubles else ""
        return (
            f"{self.turns} turns ({seconds}), {self.ingestions} ingestions, {self.artifacts} artifacts: "
            f"nothing lost, nothing twice{troubles}"
        )


def under_load(
    installation: Installation, action: Callable[[], None], *, killed: bool = False, talkers: int = 6
) -> Figures:
    """Raises ScenarioFailed when something was lost or done twice, or what the action raises."""
    return asyncio.run(_under_load(installation, action, killed=killed, talkers=talkers))


async def _under_load(installation: Installation, action: Callable[[], None], *, killed: bool, talkers: int) -> Figures:
    client = Client([installation.address()], installation.api_key)
    load = Load(client, talkers, 0.3)
    try:
        load.start()
        await asyncio.sleep(_SETTLE_SECONDS)
        try:
            await asyncio.to_thread(action)
            await asyncio.sleep(_SETTLE_SECONDS)
        finally:
            await load.stop()
        found = await asyncio.to_thread(_left_over, installation)
        found += await problems(load, "kafka:9092", killed=killed)
    finally:
        await client.close()
    if found:
        raise ScenarioFailed("; ".join(found[:10]) + f" ({len(found)} in all)")
    seconds = [turn.seconds for turn in load.turns]
    troubles = dict(client.troubles.counts)
    return Figures(len(seconds), len(load.ingestions), len(load.uploads), median(seconds), max(seconds), troubles)


def _left_over(installation: Installation) -> list[str]:
    """Events that nobody sends, and messages that nobody could work off."""
    deployments = installation.deployments()
    deadline = time.monotonic() + _OUTBOX_SECONDS
    while waiting := sum(installation.metric(name, "aes_outbox_waiting_events") for name in deployments):
        if time.monotonic() > deadline:
            return [f"{waiting:g} events wait in outboxes"]
        time.sleep(1)
    letters = sum(installation.metric(name, "aes_dead_letters_total") for name in deployments)
    return [f"{letters:g} dead-lettered messages"] if letters else []
