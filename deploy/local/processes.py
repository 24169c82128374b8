"""Starts, recognizes and stops operating system processes."""

import os
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

# Contains the state directory in every process of a stack, so that orphans are recognized.
MARKER = "AES_STACK"


@dataclass(frozen=True)
class Command:
    """A process to start."""

    arguments: list[str]
    environment: dict[str, str]
    directory: Path
    log: Path
    user: int | None = None
    group: int | None = None
    stop_signal: signal.Signals = signal.SIGTERM

    def options(self) -> dict[str, Any]:
        """Returns the keyword arguments for subprocess."""
        options: dict[str, Any] = {
            "env": self.environment,
            "cwd": self.directory,
            "stdin": subprocess.DEVNULL,
            "start_new_session": True,
        }
        if self.user is not None:
            options |= {"user": self.user, "group": self.group, "extra_groups": []}
        return options


@dataclass(frozen=True)
class Identity:
    """Identifies a process, even if a later process has the same PID."""

    pid: int
    started: float = field(compare=False)

    @classmethod
    def of(cls, pid: int) -> "Identity | None":
        with suppress(psutil.NoSuchProcess):
            return cls(pid, psutil.Process(pid).create_time())
        return None

    def process(self) -> psutil.Process | None:
        """Returns the process, or None if it has ended."""
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            # Clock adjustments shift the reported start by fractions of a second.
            same = abs(process.create_time() - self.started) < 2
            if same and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None


def listens(pid: int, port: int) -> bool:
    """Returns whether the process or one of its children listens on a TCP port."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        # Checking children takes longer, since PostgreSQL has a child per connection.
        return _listens(process, port) or any(_listens(child, port) for child in process.children(recursive=True))
    return False


def _listens(process: psutil.Process, port: int) -> bool:
    with suppress(psutil.Error):
        return any(
            connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
            for connection in process.net_connections("tcp")
        )
    return False


def marked(value: str) -> list[psutil.Process]:
    """Returns the other processes that were started for the stack with the state directory `value`."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARKER) == value:
                found.append(process)
    return found


def end(processes: Iterable[psutil.Process], how: signal.Signals = signal.SIGTERM, grace: float = 15) -> None:
    """Asks the processes to stop, and kills the remaining ones after `grace` seconds."""
    asked = list(processes)
    for process in asked:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(how)
    _, alive = psutil.wait_procs(asked, timeout=grace)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=5)


def find_orphans(state: Path, postgres: Path) -> tuple[list[psutil.Process], psutil.Process | None]:
    """Returns the processes that were started for the stack in `state`, and its PostgreSQL server.

    PostgreSQL overwrites its environment, so the PID file and working directory identify the server.
    """
    server = _postmaster(postgres / "data")
    return [process for process in marked(str(state)) if process != server], server


def end_orphans(state: Path, postgres: Path) -> int:
    """Stops the processes that an earlier run left behind, PostgreSQL last. Returns how many there were."""
    others, server = find_orphans(state, postgres)
    end(others)
    if server is not None:
        end([server], signal.SIGINT)
    return len(others) + (server is not None)


def _postmaster(data: Path) -> psutil.Process | None:
    with suppress(OSError, ValueError, IndexError, psutil.Error):
        pid = int((data / "postmaster.pid").read_text().split()[0])
        process = psutil.Process(pid)
        # The PID in a stale file may belong to any process by now.
        if process.name() == "postgres" and Path(process.cwd()) == data.resolve():
            return process
    return None
