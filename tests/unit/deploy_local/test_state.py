import asyncio
import errno
import os
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from typer.testing import CliRunner

from cli import status as cli_status
from deploy.local import control, supervisor
from deploy.local.errors import StackError
from deploy.local.home import Home
from deploy.local.processes import Identity
from deploy.local.state import ProcessPhase, ProcessState, StackState
from deploy.local.status import Status, read_status
from deploy.local.supervisor import Supervisor
from tests.support.waiting import until


def test_a_state_survives_its_file(tmp_path: Path) -> None:
    state = StackState(supervisor=Identity.of(os.getpid()), phase="running", base_url="http://x")
    state.parts["kafka"] = ProcessState("kafka", state="ready", port=1, pid=2, started=3.5)
    state.write(tmp_path / "state.json")
    assert StackState.read(tmp_path / "state.json") == state


def test_a_missing_or_broken_file_means_stopped(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"phase": "runn')
    assert StackState.read(tmp_path / "missing.json").phase == "stopped"
    assert StackState.read(tmp_path / "broken.json").phase == "stopped"


def test_a_pid_of_another_process_is_no_supervisor() -> None:
    own = Identity.of(os.getpid())
    assert StackState(supervisor=own).is_supervised()
    assert not StackState(supervisor=Identity(own.pid, own.started - 100)).is_supervised()


def test_a_service_of_several_processes_lists_them() -> None:
    parts = {
        "runtime": ProcessState("runtime", "ready", pid=1),
        "a-api": ProcessState("a", "ready", pid=1),
        "a-worker": ProcessState("a", "starting", pid=7),
    }
    status = Status("running", "http://x", parts)
    services = status.as_json()["services"]
    assert "processes" not in services["runtime"]
    assert services["a"]["state"] == "starting"
    assert [process["pid"] for process in services["a"]["processes"]] == [1, 7]


async def test_what_a_dead_supervisor_left_behind_is_told(tmp_path: Path) -> None:
    home = Home(tmp_path)
    own = Identity.of(os.getpid())
    state = StackState(supervisor=Identity(own.pid, 0), phase="running")
    state.parts["worker"] = ProcessState("worker", "ready", pid=own.pid, started=own.started)
    state.write(home.state_file)
    assert (await read_status(home)).state == "unsupervised"
    state.parts["worker"].started = 0
    state.write(home.state_file)
    status = await read_status(home)
    assert (status.state, status.parts["worker"].state, status.parts["worker"].pid) == ("stopped", "stopped", None)


async def test_why_the_last_start_failed_stays_known(tmp_path: Path) -> None:
    home = Home(tmp_path)
    StackState(phase="failed", error="Java is missing.", remedy="Install it.").write(home.state_file)
    status = await read_status(home)
    assert (status.state, status.error) == ("failed", "Java is missing.\nInstall it.")


@pytest.mark.parametrize("state", ["failing", "restarting", "stopped", "ready"])
async def test_a_stack_with_a_part_that_does_not_run_is_degraded(tmp_path: Path, state: ProcessPhase) -> None:
    """A part that was ready and whose process is gone counts as stopped."""
    home = Home(tmp_path)
    running = StackState(supervisor=Identity.of(os.getpid()), phase="running")
    running.parts["kafka"] = ProcessState("kafka", state=state)
    running.write(home.state_file)
    status = await read_status(home)
    assert (status.state, [*status.unready]) == ("degraded", ["kafka"])


def test_the_exit_code_of_status_tells_whether_something_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AES_HOME", str(tmp_path))
    running = StackState(supervisor=Identity.of(os.getpid()), phase="running", base_url="http://127.0.0.1:8080")
    running.write(tmp_path / "state.json")
    assert CliRunner().invoke(cli_status.app, []).exit_code == 0
    running.parts["kafka"] = ProcessState("kafka", state="failing", detail="exited with code 1")
    running.write(tmp_path / "state.json")
    shown = CliRunner().invoke(cli_status.app, [])
    assert shown.exit_code == 1
    assert shown.stdout.startswith("degraded  http://127.0.0.1:8080")
    assert "Not ready: kafka." in shown.stdout
    StackState(phase="stopped").write(tmp_path / "state.json")
    stopped = CliRunner().invoke(cli_status.app, [])
    assert (stopped.exit_code, stopped.stdout) == (1, "stopped\nStart the stack with: ./aes up\n")


def test_up_does_not_call_a_stack_running_of_which_a_part_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = StackState(supervisor=Identity.of(os.getpid()), phase="running")
    running.parts["kafka"] = ProcessState("kafka", state="failing", detail="exited with code 1")
    running.write(tmp_path / "state.json")
    monkeypatch.setattr(control, "_READY_SECONDS", 0.0)
    with pytest.raises(StackError, match=r"some processes aren't ready: kafka \(exited with code 1\)"):
        control.bring_up(Home(tmp_path), lambda _: None)


async def test_a_state_that_a_full_disk_refused_is_written_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, write = Home(tmp_path), StackState.write
    # The state is written when the supervisor starts, and when the stack is running.
    failures = iter([OSError(errno.ENOSPC, "No space left on device")] * 2)

    def write_to_a_full_disk(state: StackState, file: Path) -> None:
        for failure in failures:
            raise failure
        write(state, file)

    monkeypatch.setattr(StackState, "write", write_to_a_full_disk)
    monkeypatch.setattr(supervisor, "_REWRITE_SECONDS", 0.01)
    monkeypatch.setattr(Supervisor, "_start", AsyncMock())
    stop = asyncio.Event()
    running = asyncio.create_task(Supervisor(home, []).run(stop))
    await until(lambda: StackState.read(home.state_file).phase == "running")
    stop.set()
    await running
    assert StackState.read(home.state_file).phase == "stopped"
