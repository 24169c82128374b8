"""A part whose process is a few lines of Python, so that starting and dying take no time."""

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.local.managed_process import ManagedProcess, Report
from deploy.local.processes import MARKER, Command

_WAIT = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); print('at work', flush=True); time.sleep(600)"


@dataclass
class ScriptPart(ManagedProcess):
    """Runs `script`; ready once the script has created the file that is its argument."""

    directory: Path
    script: str = _WAIT
    stop_signal: signal.Signals = signal.SIGTERM
    name: str = "script"
    port: int | None = None
    starts: int = 0
    """Number of times that it was prepared."""

    @property
    def ready_file(self) -> Path:
        return self.directory / "ready"

    async def prepare(self, report: Report) -> None:
        self.starts += 1
        self.ready_file.unlink(missing_ok=True)

    def command(self) -> Command:
        return Command(
            arguments=[sys.executable, "-c", self.script, str(self.ready_file)],
            environment={**os.environ, MARKER: str(self.directory)},
            directory=self.directory,
            log=self.directory / "script.log",
            stop_signal=self.stop_signal,
        )

    async def is_ready(self) -> bool:
        return self.ready_file.exists()

    async def complete(self, report: Report) -> None:
        report("completing")


@pytest.fixture
def script_part(tmp_path: Path) -> ScriptPart:
    return ScriptPart(tmp_path)
