"""Renders the result of `aes bench ingest` as tables and JSON."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any, Final

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.ingest.run import Measured

TARGETS: Final = {"one worker": 0.9, "two workers": 1.3}


def ratio(results: Sequence[Measured], side: str) -> float | None:
    """The median over the rounds of the side's files per second against the reference's."""
    rates = {(each.label.side, each.label.round): each.files / each.seconds for each in results}
    ratios = [
        rate / rates["reference", number]
        for (name, number), rate in rates.items()
        if name == side and ("reference", number) in rates
    ]
    return median(ratios) if ratios else None


def as_json(results: Sequence[Measured]) -> dict[str, Any]:
    return {
        "machine": {"cores": psutil.cpu_count(), "python": platform.python_version(), "system": platform.system()},
        "results": [asdict(each) for each in results],
        "ratios": {side: ratio(results, side) for side in TARGETS},
        "targets": TARGETS,
    }


def show(results: Sequence[Measured], console: Console) -> None:
    table = Table(title="From the command to the end of the ingestion", title_justify="left")
    table.add_column("side")
    for heading in ("round", "seconds", "files", "failed", "chunks", "files/s", "MB/s", "chunks/s", "peak MB"):
        table.add_column(heading, justify="right")
    for each in results:
        figures = (
            each.files / each.seconds, each.label.megabytes / each.seconds, each.chunks / each.seconds,
            each.usage.peak_bytes / 1e6,
        )  # fmt: skip
        table.add_row(
            each.label.side, str(each.label.round), f"{each.seconds:.1f}", f"{each.files:,}", f"{each.failed:,}",
            f"{each.chunks:,}", *(f"{figure:,.1f}" for figure in figures),
        )  # fmt: skip
    console.print(table)
    for each in results:
        cpu = "  ".join(f"{name} {seconds:.1f}" for name, seconds in each.usage.cpu.items() if seconds >= 0.05)
        console.print(f"CPU seconds, {each.label.side}, round {each.label.round}: {cpu}")
        if each.stages:
            stages = "  ".join(f"{name} {seconds:.1f}" for name, seconds in each.stages.items())
            console.print(f"  seconds by stage: {stages}")
    for side, goal in TARGETS.items():
        if (value := ratio(results, side)) is not None:
            verdict = "[green]met[/]" if value >= goal else "[red]missed[/]"
            console.print(f"{side} against the reference: {value:.2f} times, goal {goal} {verdict}")
