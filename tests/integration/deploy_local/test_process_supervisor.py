"""The supervisor of processes, and processes that outlived theirs."""

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import psutil
import pytest

from deploy.local import process_supervisor
from deploy.local.errors import PortTaken, ProcessFailed
from deploy.local.managed_process import Report
from deploy.local.ports import choose_free
from deploy.local.process_supervisor import ProcessSupervisor
from deploy.local.processes import Identity, end_orphans, find_orphans
from deploy.local.state import ProcessState
from libs.retry import RetryPolicy
from tests.integration.deploy_local.conftest import ScriptPart
from tests.support.waiting import until

_DEAF = (
    "import pathlib, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
)

_TOUCH = "import pathlib, socket, sys, time; pathlib.Path(sys.argv[1]).touch()"


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_supervisor, "_FIRST_DELAY", 0.01)
    monkeypatch.setattr(process_supervisor, "_FIRST_START", RetryPolicy(first=0.01, attempts=4))


@pytest.fixture
def full_disk() -> Iterator[TextIO]:
    """A file whose every line fails to be written, as standard error does."""
    # It can't be closed without an error either.
    with suppress(OSError), Path("/dev/full").open("w", buffering=1) as file:
        yield file


@pytest.fixture
def state() -> ProcessState:
    return ProcessState(service="script")


@pytest.fixture
async def supervisor(script_part: ScriptPart, state: ProcessState) -> AsyncIterator[ProcessSupervisor]:
    supervisor = ProcessSupervisor(script_part, state, lambda: None)
    yield supervisor
    await supervisor.stop(grace=5)


async def test_a_started_part_is_ready_and_known_by_its_pid(supervisor: ProcessSupervisor, state: ProcessState) -> None:
    await supervisor.start()
    assert state.state == "ready"
    assert state.pid is not None
    assert psutil.pid_exists(state.pid)


async def test_a_killed_part_comes_back(supervisor: ProcessSupervisor, state: ProcessState) -> None:
    await supervisor.start()
    for restarts in (1, 2):
        killed = state.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        await until(lambda killed=killed: state.state == "ready" and state.pid != killed)
        assert state.restarts == restarts


async def test_an_orderly_end_is_counted_as_a_restart_on_request(
    supervisor: ProcessSupervisor, script_part: ScriptPart, state: ProcessState
) -> None:
    orderly = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))"
    script_part.script = f"{orderly}; {script_part.script}"
    await supervisor.start()
    for number, asked in ((signal.SIGTERM, 1), (signal.SIGKILL, 1), (signal.SIGTERM, 2)):
        ended = state.pid
        assert ended is not None
        os.kill(ended, number)
        await until(lambda ended=ended: state.state == "ready" and state.pid != ended)
        assert state.asked_restarts == asked
    assert state.restarts == 3


async def test_a_part_that_cannot_be_started_again_is_tried_until_it_can(
    supervisor: ProcessSupervisor, script_part: ScriptPart, state: ProcessState
) -> None:
    await supervisor.start()
    working, script_part.script = script_part.script, "raise SystemExit(7)"
    assert state.pid is not None
    os.kill(state.pid, signal.SIGKILL)
    await until(lambda: state.restarts >= 3)
    assert "exited with code 7" in state.detail or state.state in ("preparing", "starting")
    script_part.script = working
    await until(lambda: state.state == "ready")


async def test_a_full_disk_under_the_log_does_not_end_the_supervision(
    supervisor: ProcessSupervisor,
    script_part: ScriptPart,
    state: ProcessState,
    full_disk: TextIO,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An unexpected error is written to the supervisor's log, which is on the disk that caused it."""
    await supervisor.start()
    assert state.pid is not None
    prepare, failures = script_part.prepare, iter([OSError(errno.ENOSPC, "No space left on device")] * 2)

    async def prepare_on_a_full_disk(report: Report) -> None:
        for failure in failures:
            raise failure
        await prepare(report)

    monkeypatch.setattr(script_part, "prepare", prepare_on_a_full_disk)
    monkeypatch.setattr(sys, "stderr", full_disk)
    os.kill(state.pid, signal.SIGKILL)
    await until(lambda: state.state == "ready" and state.restarts >= 3)


async def test_a_first_start_is_given_up_with_the_last_words(
    supervisor: ProcessSupervisor, script_part: ScriptPart
) -> None:
    script_part.script = "raise SystemExit('no such luck')"
    with pytest.raises(ProcessFailed, match="exited with code 1 while starting") as caught:
        await supervisor.start()
    assert "no such luck" in caught.value.problem
    assert str(script_part.command().log) in caught.value.remedy
    assert script_part.starts == 4


@pytest.mark.parametrize(
    ("words", "quoted"), [("recovering\n", " The end of its log:\n  recovering"), ("", "")], ids=["log", "empty log"]
)
async def test_after_a_slow_first_start_another_is_advised(
    supervisor: ProcessSupervisor, script_part: ScriptPart, monkeypatch: pytest.MonkeyPatch, words: str, quoted: str
) -> None:
    log = script_part.command().log
    log.write_text("words of an earlier start\n")
    script_part.script = "import time; time.sleep(600)"

    async def not_ready_in_time() -> bool:
        with log.open("a") as end:
            end.write(words)
        # What the limit raises, without the wait.
        raise TimeoutError

    monkeypatch.setattr(script_part, "is_ready", not_ready_in_time)
    with pytest.raises(ProcessFailed) as caught:
        await supervisor.start()
    assert caught.value.problem == f"script wasn't ready after three minutes.{quoted}"
    assert caught.value.remedy == f"The machine may be too busy. Run ./aes up again.\nThe whole log: {log}"


async def test_the_answer_of_another_program_on_its_port_is_not_taken_for_its_own(
    supervisor: ProcessSupervisor, script_part: ScriptPart
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        script_part.port = other.getsockname()[1]
        # The probe is content at once, as if the other program were the same service of another stack.
        script_part.script = f"{_TOUCH}; time.sleep(1); socket.create_server(('127.0.0.1', {script_part.port}))"
        with pytest.raises(
            PortTaken, match=f"Port {script_part.port}, which script needs, is in use by another program"
        ):
            await supervisor.start()
    assert script_part.starts == 1


async def test_a_process_that_listens_on_its_port_is_ready(
    supervisor: ProcessSupervisor, script_part: ScriptPart, state: ProcessState
) -> None:
    script_part.port = choose_free()
    script_part.script = f"s = socket.create_server(('127.0.0.1', {script_part.port})); {_TOUCH}; time.sleep(600)"
    script_part.script = f"import pathlib, socket, sys, time; {script_part.script}"
    await supervisor.start()
    assert state.state == "ready"


async def test_a_stopped_part_stays_stopped(
    supervisor: ProcessSupervisor, script_part: ScriptPart, state: ProcessState
) -> None:
    await supervisor.start()
    pid = state.pid
    await supervisor.stop(grace=5)
    assert pid is not None
    assert not psutil.pid_exists(pid)
    assert (state.state, state.pid, script_part.starts) == ("stopped", None, 1)


async def test_a_part_that_does_not_listen_is_killed(
    supervisor: ProcessSupervisor, script_part: ScriptPart, state: ProcessState
) -> None:
    script_part.script = _DEAF
    await supervisor.start()
    pid = state.pid
    await supervisor.stop(grace=0.2)
    assert pid is not None
    assert not psutil.pid_exists(pid)


@pytest.fixture
def orphan(script_part: ScriptPart) -> subprocess.Popen[bytes]:
    command = script_part.command()
    return subprocess.Popen(command.arguments, stdout=subprocess.DEVNULL, **command.options())


def test_a_process_of_the_stack_is_found_and_ended(script_part: ScriptPart, orphan: subprocess.Popen[bytes]) -> None:
    assert [process.pid for process in find_orphans(script_part.directory, script_part.directory)[0]] == [orphan.pid]
    assert end_orphans(script_part.directory, script_part.directory) == 1
    assert not psutil.pid_exists(orphan.pid)
    assert end_orphans(script_part.directory, script_part.directory) == 0


def test_processes_of_another_stack_are_left_alone(script_part: ScriptPart, orphan: subprocess.Popen[bytes]) -> None:
    elsewhere = script_part.directory / "elsewhere"
    assert end_orphans(elsewhere, elsewhere) == 0
    assert orphan.poll() is None
    orphan.kill()
    orphan.wait()


def test_a_stale_pid_file_that_names_somebody_else_does_no_harm(script_part: ScriptPart) -> None:
    data = script_part.directory / "data"
    data.mkdir()
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n")
    assert find_orphans(script_part.directory, script_part.directory) == ([], None)


async def test_an_ended_process_has_no_identity(script_part: ScriptPart, orphan: subprocess.Popen[bytes]) -> None:
    identity = Identity.of(orphan.pid)
    assert identity.process() is not None
    orphan.kill()
    # Dead but not yet waited for: a zombie still has its pid.
    await until(lambda: identity.process() is None)
    assert psutil.pid_exists(orphan.pid)
    orphan.wait()
    assert Identity.of(orphan.pid) is None
