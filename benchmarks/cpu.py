"""Measures CPU time per process of the stack."""

from collections.abc import Mapping
from contextlib import suppress

import psutil


class ProcessGone(Exception):
    """A measured process ended during the run, which makes the figures meaningless."""


def cpu_seconds(processes: Mapping[str, psutil.Process]) -> dict[str, float]:
    """CPU seconds so far of each process and all its descendants, the ended ones included."""
    seconds = {}
    for name, process in processes.items():
        try:
            seconds[name] = sum(_with_ended_children(member) for member in [process, *process.children(recursive=True)])
        except psutil.NoSuchProcess:
            raise ProcessGone(f"{name} ended while it was measured; its log says why") from None
    return seconds


def machine_seconds() -> float:
    """CPU seconds that the whole machine has spent on anything."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _with_ended_children(process: psutil.Process) -> float:
    # A child that ended between the listing and here is counted by its parent the next time.
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0
