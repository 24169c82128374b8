"""The conditions that a result was measured under: without them a figure cannot be compared with a later one."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from deploy.local.home import PROJECT_ROOT


def conditions() -> dict[str, Any]:
    """Commit, date and machine. A commit that ends with ``-dirty`` had changes that are not in it."""
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
    """None where the sources are no clone."""
    command = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    try:
        done = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except FileNotFoundError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())
