"""Samples what processes use while something is measured: CPU time by part, and the highest memory of all together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import psutil

from benchmarks.cpu import machine_seconds

_SAMPLE_SECONDS = 0.25
_PARSER = "services.ingestion.adapters.parsing.worker"


@dataclass
class Usage:
    """CPU seconds by part; ``peak_bytes`` of the parts together; ``elsewhere``: CPU seconds that others used."""

    cpu: dict[str, float] = field(default_factory=dict)
    peak_bytes: int = 0
    elsewhere: float = 0.0


@asynccontextmanager
async def measured(parts: Mapping[str, psutil.Process], counted_in_memory: frozenset[str]) -> AsyncIterator[Usage]:
    """Parsing processes are told apart from the worker that they belong to."""
    usage = Usage()
    before, machine = _cpu(parts), machine_seconds()
    sampling = asyncio.create_task(_sample({name: parts[name] for name in counted_in_memory}, usage))
    try:
        yield usage
    finally:
        sampling.cancel()
        after = _cpu(parts)
        usage.cpu = {name: after[name] - before.get(name, 0.0) for name in after}
        usage.elsewhere = machine_seconds() - machine - sum(usage.cpu.values())


async def _sample(parts: Mapping[str, psutil.Process], usage: Usage) -> None:
    while True:
        usage.peak_bytes = max(usage.peak_bytes, sum(_memory(process) for process in parts.values()))
        await asyncio.sleep(_SAMPLE_SECONDS)


def _memory(process: psutil.Process) -> int:
    total = 0
    for member in [process, *process.children(recursive=True)]:
        with suppress(psutil.Error):
            total += int(member.memory_info().rss)
    return total


def _cpu(parts: Mapping[str, psutil.Process]) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for name, process in parts.items():
        for member in [process, *process.children(recursive=True)]:
            with suppress(psutil.Error):
                times, label = member.cpu_times(), name
                if _PARSER in member.cmdline():
                    label = f"{name} parsing"
                # Of its children it has the times of those that have ended: PostgreSQL's connections, say.
                used = times.user + times.system + times.children_user + times.children_system
                seconds[label] = seconds.get(label, 0.0) + used
    return seconds
