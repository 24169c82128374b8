"""The directory that the processes of a test run share: a lock, facts about servers, and the run's owner.

The owner is the process that was started by hand: pytest-xdist's controller, or the only process. It ends the servers
after the last test. When the owner is killed, a guard process ends them in its place; when the guard is
killed too, the next run does.

`python -m tests.support.run_directory DIRECTORY` is the guard.
"""

import atexit
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Final

import psutil

from deploy.local.files import write_atomically
from deploy.local.home import PROJECT_ROOT
from deploy.local.processes import MARKER, Identity, end_orphans
from tests.support.server_directories import directories, new_directory

DIRECTORY: Final = "AES_TEST_RUN"
"""Environment variable by which the owner tells its workers where the directory is."""
_PREFIX: Final = "aes-test-"
_GUARD_SECONDS: Final = 0.5
_WORKERS_END_SECONDS: Final = 60.0


@dataclass(frozen=True)
class RunDirectory:
    path: Path

    @classmethod
    def current(cls) -> "RunDirectory":
        """The directory of this process's run; the first process to ask creates it and is the run's owner."""
        if (given := os.environ.get(DIRECTORY)) and Path(given).is_dir():
            return cls(Path(given))
        run = cls.create()
        os.environ[DIRECTORY] = str(run.path)
        atexit.register(run.end)
        return run

    @classmethod
    def create(cls, path: Path | None = None) -> "RunDirectory":
        """A directory owned by this process."""
        run = cls(path or new_directory(_PREFIX))
        run.path.mkdir(exist_ok=True)
        # PostgreSQL runs as another user when the tests run as root.
        run.path.chmod(0o711)
        owner = Identity.of(os.getpid())
        write_atomically(run.path / "owner.json", json.dumps([owner.pid, owner.started]))
        return run

    @property
    def owner(self) -> Identity:
        """Raises OSError or ValueError when the directory is gone or damaged."""
        return Identity(*json.loads((self.path / "owner.json").read_text()))

    def is_owned_here(self) -> bool:
        with suppress(OSError, ValueError):
            return self.owner.pid == os.getpid()
        return False

    @contextmanager
    def facts(self) -> Iterator[dict[str, Any]]:
        """Reads and changes the state that the run's processes share, under a lock."""
        file = self.path / "facts.json"
        with (self.path / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            facts = json.loads(file.read_text()) if file.exists() else {}
            before = json.dumps(facts)
            yield facts
            if (after := json.dumps(facts)) != before:
                write_atomically(file, after)

    def guard(self) -> None:
        """Starts the guard process, once per run. To be called before anything is started that has to be ended."""
        with self.facts() as facts:
            if "guard" in facts:
                return
            end_abandoned_runs()
            guard = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, str(self.path)],
                cwd=PROJECT_ROOT,
                env={name: value for name, value in os.environ.items() if name != MARKER},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            facts["guard"] = guard.pid

    def join_as_worker(self) -> None:
        """Has the servers that this process's tests start for themselves end with the run, if not before."""
        os.environ[MARKER] = str(self.path)
        me = Identity.of(os.getpid())
        assert me is not None
        with self.facts() as facts:
            facts.setdefault("workers", []).append([me.pid, me.started])

    def workers(self) -> list[psutil.Process]:
        """Processes that have not ended."""
        with self.facts() as facts:
            identities = [Identity(*worker) for worker in facts.get("workers", [])]
        return [process for identity in identities if (process := identity.process()) is not None]

    def end(self) -> None:
        """Ends the run's servers and removes the directory. Does nothing in processes other than the owner."""
        if self.is_owned_here():
            _clear_away(self.path)


def end_abandoned_runs() -> None:
    """Ends what runs whose owner and guard were killed have left behind."""
    for path in directories(_PREFIX):
        with suppress(OSError, ValueError):
            if RunDirectory(path).owner.process() is None:
                _clear_away(path)


def _clear_away(path: Path) -> None:
    end_orphans(path, path / "postgres")
    if os.environ.get("AES_TEST_INFRA") == "containers":
        from tests.support import containers

        containers.remove_of(RunDirectory(path).owner)
    if any(directories("aes-e2e-")):
        from tests.e2e.running_stack import end_abandoned_stacks

        end_abandoned_stacks()
    shutil.rmtree(path, ignore_errors=True)


def _guard(path: Path) -> None:
    # Not above: pytest imports this module before it has seen that one, whose assertions it rewrites.
    from tests.support.waiting import wait_until

    try:
        owner = RunDirectory(path).owner
    except (OSError, ValueError):
        return
    wait_until(lambda: not path.exists() or owner.process() is None, within=inf, pause=_GUARD_SECONDS)
    # Workers notice that their owner is gone, and end by themselves.
    with suppress(AssertionError):
        wait_until(
            lambda: not path.exists() or not RunDirectory(path).workers(),
            within=_WORKERS_END_SECONDS,
            pause=_GUARD_SECONDS,
        )
    if path.exists():
        _clear_away(path)


if __name__ == "__main__":
    _guard(Path(sys.argv[1]))
