"""Finds and ends processes of a stack whose supervisor is gone."""

import signal
from contextlib import suppress
from pathlib import Path

import psutil

from deploy.local.processes import end, marked


def find_orphans(state: Path, postgres: Path) -> tuple[list[psutil.Process], psutil.Process | None]:
    """Marked processes of the stack in `state`, and its PostgreSQL.

    PostgreSQL overwrites its environment with status texts, so it is recognised by its own pid file and
    working directory instead of the marker.
    """
    server = _postmaster(postgres / "data")
    return [process for process in marked(str(state)) if process != server], server


def end_orphans(state: Path, postgres: Path) -> int:
    """End what an earlier run left, services before PostgreSQL; returns how many processes there were."""
    others, server = find_orphans(state, postgres)
    end(others)
    if server is not None:
        end([server], signal.SIGINT)
    return len(others) + (server is not None)


def _postmaster(data: Path) -> psutil.Process | None:
    with suppress(OSError, ValueError, IndexError, psutil.Error):
        pid = int((data / "postmaster.pid").read_text().split()[0])
        process = psutil.Process(pid)
        # The pid in a stale file may belong to anything by now.
        if process.name() == "postgres" and Path(process.cwd()) == data.resolve():
            return process
    return None
