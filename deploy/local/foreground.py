"""Runs processes of the stack as child processes, for tests and tools that don't need a supervisor."""

import asyncio
import signal
import subprocess
import time
from dataclasses import dataclass

from deploy.local.errors import ProcessFailed
from deploy.local.files import tail
from deploy.local.managed_process import ManagedProcess, Report
from deploy.local.processes import Command


@dataclass
class RunningProcess:
    part: ManagedProcess
    process: subprocess.Popen[bytes]
    stop_signal: signal.Signals

    def stop(self, grace: float = 15) -> None:
        if self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(grace)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


async def start(part: ManagedProcess, report: Report, timeout: float = 180) -> RunningProcess:
    """Prepares and starts a process, and waits until it's ready."""
    await part.prepare(report)
    command = part.command()
    command.log.parent.mkdir(parents=True, exist_ok=True)
    process = _spawn(command)
    running = RunningProcess(part, process, command.stop_signal)
    try:
        await _until_ready(part, process, time.monotonic() + timeout)
        await part.complete(report)
    except BaseException:
        running.stop()
        raise
    return running


def _spawn(command: Command) -> subprocess.Popen[bytes]:
    with command.log.open("ab") as log:
        return subprocess.Popen(command.arguments, stdout=log, stderr=log, **command.options())


async def _until_ready(part: ManagedProcess, process: subprocess.Popen[bytes], deadline: float) -> None:
    while not await part.is_ready():
        last_words = "\n".join(tail(part.command().log, 15))
        if process.poll() is not None:
            raise ProcessFailed(f"{part.name} exited with code {process.returncode} while starting:\n{last_words}")
        if time.monotonic() > deadline:
            raise ProcessFailed(f"{part.name} wasn't ready in time:\n{last_words}")
        await asyncio.sleep(0.05)
