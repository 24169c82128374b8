"""Counts each process's share of the work across its restarts."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from tests.rolling_restart.targets import Target

# What counts the work of a service, and what is in the names of the processes that do it.
_DONE: Final = {
    "runtime": ("aes_runtime_turns_ended_total", "runtime"),
    "ingestion": ("aes_ingestion_items_total", "streams"),
}
_WAITING: Final = "aes_outbox_waiting_events"
_LETTERS: Final = "aes_dead_letters_total"


@dataclass
class Spread:
    """Counters begin anew with each process, so they are read before it is ended and at the end."""

    target: Target
    done: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By process."""
    letters: float = 0
    unread: set[str] = field(default_factory=set)

    async def before_end_of(self, service: str, process: str) -> None:
        """Add what the process has done since its start."""
        text = await asyncio.to_thread(self.target.metrics, process)
        if text is None:
            self.unread.add(process)
            return
        self.letters += total(text, _LETTERS) or 0
        counter, named = _DONE.get(service, ("", ""))
        if counter and named in process:
            self.done[process] += total(text, counter) or 0

    def waiting(self, process: str) -> float | None:
        """Events that this process knows of and that are not sent yet."""
        text = self.target.metrics(process)
        return None if text is None else total(text, _WAITING)

    def idle(self, processes: list[tuple[str, str]]) -> list[str]:
        """Processes that did nothing of the work that their like did."""
        found = []
        for service in _DONE:
            alike = [process for owner, process in processes if owner == service and process in self.done]
            if len(alike) > 1 and any(self.done[process] for process in alike):
                found += [process for process in alike if not self.done[process]]
        return found


def total(text: str, name: str) -> float | None:
    """The sum over all labels; None when there is no such metric."""
    values = re.findall(rf"^{name}(?:{{.*}})? ([-+.\deE]+)$", text, re.MULTILINE)
    return sum(map(float, values)) if values else None
