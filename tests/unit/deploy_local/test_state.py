import os
from pathlib import Path

from deploy.local.home import Home
from deploy.local.processes import Identity
from deploy.local.state import ProcessState, StackState
from deploy.local.status import ProcessStatus, Status, read_status


def part(name: str, service: str, state: str = "ready", pid: int = 1) -> ProcessStatus:
    return ProcessStatus(name, service, pid, 2, state, 0, "")


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
    assert own is not None
    assert StackState(supervisor=own).is_supervised()
    assert not StackState(supervisor=Identity(own.pid, own.started - 100)).is_supervised()


def test_a_service_of_several_processes_lists_them() -> None:
    status = Status(
        "running", "http://x", [part("runtime", "runtime"), part("a-api", "a"), part("a-worker", "a", "starting", 7)]
    )
    services = status.as_json()["services"]
    assert "processes" not in services["runtime"]
    assert services["a"]["state"] == "starting"
    assert [process["pid"] for process in services["a"]["processes"]] == [1, 7]


async def test_what_a_dead_supervisor_left_behind_is_told(tmp_path: Path) -> None:
    home = Home(tmp_path)
    own = Identity.of(os.getpid())
    assert own is not None
    state = StackState(supervisor=Identity(own.pid, 0), phase="running")
    state.parts["worker"] = ProcessState("worker", "ready", pid=own.pid, started=own.started)
    state.write(home.state_file)
    assert (await read_status(home)).state == "unsupervised"
    state.parts["worker"].started = 0
    state.write(home.state_file)
    status = await read_status(home)
    assert (status.state, status.parts[0].state, status.parts[0].pid) == ("stopped", "stopped", None)


async def test_why_the_last_start_failed_stays_known(tmp_path: Path) -> None:
    home = Home(tmp_path)
    StackState(phase="failed", error="Java is missing.", remedy="Install it.").write(home.state_file)
    status = await read_status(home)
    assert (status.state, status.error) == ("failed", "Java is missing.\nInstall it.")
