"""The embedded stack through its command line, with all its real parts."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from deploy.local.home import PROJECT_ROOT, Home
from deploy.local.ports import choose_free
from deploy.local.processes import find_orphans
from deploy.local.state import StackState
from tests.support.server_directories import new_directory
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow(
    covered_by="integration/deploy_local/test_process_supervisor.py::test_a_killed_part_comes_back"
)
PARTS = ("postgres", "kafka", "gateway", "registry", "runtime")


class Installation:
    """A stack in a directory of its own, used as its users do."""

    def __init__(self, directory: Path) -> None:
        self.home = Home(directory)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AES_")},
            "AES_PYTHON": sys.executable,
            "AES_HOME": str(directory),
        }

    def aes(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(PROJECT_ROOT / "aes"), *arguments],
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def result(self, *arguments: str) -> dict[str, Any]:
        """The last line of a command's output."""
        finished = self.aes(*arguments, "--json")
        assert finished.returncode == 0, finished.stderr
        document: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
        return document

    def services(self) -> dict[str, dict[str, Any]]:
        services: dict[str, dict[str, Any]] = self.status()["services"]
        return services

    def status(self) -> dict[str, Any]:
        """Also of a stack that isn't whole, for which the exit code is 1."""
        finished = self.aes("status", "--json")
        assert finished.returncode in (0, 1), finished.stderr
        status: dict[str, Any] = json.loads(finished.stdout)
        return status

    def supervisor(self) -> int:
        supervisor = StackState.read(self.home.state_file).supervisor
        return supervisor.pid

    def pids(self) -> set[int]:
        """Pids of all processes of all parts; a part of one process names just that."""
        return {process["pid"] for part in self.services().values() for process in part.get("processes", [part])}


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    with _installation() as installation:
        yield installation


@contextmanager
def _installation() -> Iterator[Installation]:
    """Not below pytest's own folder, which each run of pytest closes to all other users, of whom PostgreSQL is one."""
    directory = new_directory("aes-lifecycle-")
    directory.chmod(directory.stat().st_mode | stat.S_IXOTH)
    shared_downloads = Home.from_environment()
    shared_downloads.create()
    (directory / "cache").symlink_to(shared_downloads.cache)
    installation = Installation(directory)
    try:
        yield installation
    finally:
        installation.aes("down")
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def running(installation: Installation) -> Installation:
    assert installation.result("up").keys() == {"base_url", "api_key"}
    return installation


def test_up_gives_the_address_and_the_key_and_again_the_same(running: Installation) -> None:
    before = running.services()
    first, second = running.result("up"), running.result("up")
    assert first == second
    assert {name: part["pid"] for name, part in running.services().items()} == {
        name: part["pid"] for name, part in before.items()
    }
    assert stat.S_IMODE(running.home.development_key_file.stat().st_mode) == 0o600
    assert httpx.get(f"{first['base_url']}/health/ready").status_code == 200


def test_status_names_the_processes_that_do_the_work(running: Installation) -> None:
    services = running.services()
    assert set(PARTS) <= set(services)
    assert {services[name]["state"] for name in PARTS} == {"ready"}
    commands = {name: " ".join(psutil.Process(services[name]["pid"]).cmdline()) for name in PARTS}
    assert "kafka.Kafka" in commands["kafka"]
    assert "postgres" in commands["postgres"]
    assert commands["runtime"].endswith("-m services.runtime all")


@pytest.mark.parametrize("part", PARTS)
def test_a_killed_part_comes_back(running: Installation, part: str) -> None:
    killed = running.services()[part]["pid"]
    os.kill(killed, signal.SIGKILL)

    def is_back() -> bool:
        services = running.services()
        others_ready = all(services[name]["state"] == "ready" for name in PARTS)
        return others_ready and services[part]["pid"] not in (None, killed)

    wait_until(is_back, pause=0.2)


def test_up_takes_over_what_a_killed_supervisor_left(running: Installation) -> None:
    orphans = running.pids()
    os.kill(running.supervisor(), signal.SIGKILL)
    wait_until(lambda: running.status()["state"] == "unsupervised", pause=0.2)
    running.result("up")
    assert not orphans & running.pids()
    assert not [pid for pid in orphans if psutil.pid_exists(pid)]


def test_down_leaves_nothing_running(running: Installation) -> None:
    assert running.result("down") == {"stopped": True, "purged": False}
    assert find_orphans(running.home.root, running.home.postgres) == ([], None)
    assert running.status()["state"] == "stopped"
    assert running.result("down") == {"stopped": False, "purged": False}


def test_a_port_that_somebody_took_is_replaced(installation: Installation) -> None:
    installation.aes("down")
    port = json.loads(installation.home.ports_file.read_text())["kafka"]
    with socket.create_server(("127.0.0.1", port)):
        installation.result("up")
        assert installation.services()["kafka"]["port"] != port


def test_a_port_that_was_asked_for_and_is_taken_is_explained(installation: Installation) -> None:
    installation.aes("down")
    with socket.create_server(("127.0.0.1", port := choose_free())):
        refused = installation.aes("up", "--json", AES_GATEWAY_PORT=str(port))
    assert refused.returncode == 1
    assert f"Port {port}" in json.loads(refused.stdout)["error"]["message"]
    assert find_orphans(installation.home.root, installation.home.postgres) == ([], None)


def test_stacks_that_start_together_answer_each_for_itself(installation: Installation) -> None:
    """Both look for ports at the same moment and find the same ones free."""
    installation.aes("down")
    # The first choice of both, as it is of fresh checkouts.
    ports = {"gateway": choose_free()}
    with _installation() as other:
        for each in (installation, other):
            each.home.ports_file.write_text(json.dumps(ports))
        with ThreadPoolExecutor() as pool:
            first, second = pool.map(lambda each: each.result("up"), (installation, other))
        assert first["base_url"] != second["base_url"]
        for up in (first, second):
            answer = httpx.get(f"{up['base_url']}/api/v1/me/", headers={"x-api-key": up["api_key"]}, timeout=60)
            assert answer.status_code == 200
        for each in (installation, other):
            assert {part["state"] for part in each.services().values()} == {"ready"}


def test_a_part_that_cannot_start_is_explained_with_the_end_of_its_log(installation: Installation) -> None:
    installation.aes("down")
    # An address of no machine.
    refused = installation.aes("up", AES_GATEWAY_HOST="192.0.2.1")
    assert refused.returncode == 1
    assert "while starting. The end of its log" in refused.stderr
    assert find_orphans(installation.home.root, installation.home.postgres) == ([], None)


def test_logs_of_one_part_or_all(running: Installation) -> None:
    only = running.aes("logs", "gateway", "-n", "3").stdout.splitlines()
    assert 1 <= len(only) <= 3
    everything = running.aes("logs", "-n", "1").stdout
    assert "gateway" in everything
    assert "postgres" in everything
    unknown = running.aes("logs", "nobody")
    assert unknown.returncode == 1
    assert "gateway" in unknown.stderr
