"""The conditions under which a benchmark runs, and the machine's CPU times."""

import os
import platform
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from deploy.local.errors import StackError
from deploy.local.home import PROJECT_ROOT


def conditions() -> dict[str, Any]:
    """Returns the commit, date and machine. A commit with uncommitted changes ends with ``-dirty``."""
    return {
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cores": psutil.cpu_count(),
            "memory_gigabytes": round(psutil.virtual_memory().total / 1e9, 1),
            "cpu": _cpu_model(),
            "load": round(os.getloadavg()[0], 1),
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()}",
        },
    }


def _commit() -> str | None:
    """Returns the commit, or None outside a clone of the repository."""
    command = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    with suppress(FileNotFoundError, subprocess.CalledProcessError):
        return subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True).stdout.strip()
    return None


def _cpu_model() -> str:
    with suppress(FileNotFoundError), Path("/proc/cpuinfo").open() as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def cpu_seconds(processes: Mapping[str, psutil.Process]) -> dict[str, float]:
    """Returns the CPU seconds of each process with all its descendants. Raises StackError if a process has ended."""
    seconds = {}
    for name, process in processes.items():
        try:
            seconds[name] = sum(_with_ended_children(member) for member in [process, *process.children(recursive=True)])
        except psutil.NoSuchProcess:
            raise StackError(f"{name} ended while it was being measured.", "See the process's log.") from None
    return seconds


def _with_ended_children(process: psutil.Process) -> float:
    # If a child ended between the listing and this line, its parent counts it the next time.
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def machine_seconds() -> float:
    """Returns the CPU seconds of the whole machine."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def resident_bytes(process: psutil.Process) -> int:
    """Returns the memory of a process and its descendants. Shared memory counts once per process."""
    total = 0
    for member in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            total += int(member.memory_info().rss)
    return total
