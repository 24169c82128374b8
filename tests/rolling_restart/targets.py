"""Installations whose processes can be restarted one by one."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

import orjson
import psutil

from deploy.local.home import Home
from deploy.local.processes import end
from deploy.local.state import ProcessState, StackState
from libs.eventing import KafkaConnection
from tests.e2e.running_stack import RunningStack, environment_of, temporary_home
from tests.support.waiting import wait_until

REPLICAS: Final = "gateway=2,runtime=2,ingestion=2"
# Turns are to be under way when a process is asked to end.
_MODEL_SECONDS: Final = 0.3
SERVICES: Final = ("gateway", "registry", "runtime", "ingestion", "artifacts", "timeline")
_TIMEOUT_SECONDS: Final = 300.0


class Target(Protocol):
    base_urls: list[str]
    """Addresses of the gateways."""
    api_key: str
    kafka: KafkaConnection | str | None
    """Bootstrap servers, when the bus can be looked at."""

    def processes(self) -> list[tuple[str, str]]:
        """Service and name of every process, in the order of their restarts."""

    def restart(self, process: str) -> None:
        """End it gracefully, start it again, return when it is ready."""

    def kill(self, process: str) -> None:
        """As `restart`, without a warning."""

    def drain(self, process: str, grace: float) -> None:
        """As `restart`, killed after ``grace`` seconds."""

    def metrics(self, process: str) -> str | None:
        """Reads its metrics; None when it does not answer."""

    def errors_logged(self) -> list[str]:
        """Unexpected exceptions that its processes have logged, when their logs can be read."""


@dataclass
class EmbeddedStack:
    """A running stack of `aes up`, worked on by its command line."""

    stack: RunningStack

    def __post_init__(self) -> None:
        gateways = [part for part in self._parts().values() if part.service == "gateway"]
        self.api_key = self.stack.api_key
        self.base_urls = [f"http://127.0.0.1:{gateway.port}" for gateway in gateways]
        self.kafka: KafkaConnection | str | None = self.stack.kafka

    def processes(self) -> list[tuple[str, str]]:
        parts = self._parts()
        return [(service, name) for service in SERVICES for name, part in parts.items() if part.service == service]

    def restart(self, process: str) -> None:
        # A service's name alone would stand for all of its processes.
        self.stack.aes("restart", f"{process}-1" if process in SERVICES else process, limit=_TIMEOUT_SECONDS)

    def kill(self, process: str) -> None:
        before = self.pid(process)
        os.kill(before, signal.SIGKILL)
        self.wait_back(process, before)

    def drain(self, process: str, grace: float) -> None:
        before = self.pid(process)
        with suppress(psutil.NoSuchProcess):
            end([psutil.Process(before)], signal.SIGTERM, grace)
        self.wait_back(process, before)

    def errors_logged(self) -> list[str]:
        logs = sorted((self.stack.home / "logs").glob("*.log"))
        return [f"{log.stem}: {error}" for log in logs for error in _errors(log.read_text(errors="replace"))]

    def pid(self, process: str) -> int:
        pid = self._parts()[process].pid
        assert pid is not None, f"{process} does not run"
        return pid

    def wait_back(self, process: str, before: int) -> None:
        """Until another process than that one does its work."""
        wait_until(lambda: self._is_back(process, before), f"{process} is back", within=_TIMEOUT_SECONDS, pause=0.2)

    def metrics(self, process: str) -> str | None:
        return read(f"http://127.0.0.1:{self._parts()[process].port}/metrics")

    def _is_back(self, process: str, before: int) -> bool:
        now = self._parts()[process]
        return now.state == "ready" and now.pid != before

    def _parts(self) -> dict[str, ProcessState]:
        """As their supervisor last saw them. To ask each of them again and again would slow down what is measured."""
        return StackState.read(Home(self.stack.home).state_file).parts


@contextmanager
def stack_with_replicas(
    logs: str | None = None, *, replicas: str = REPLICAS, model_seconds: float = _MODEL_SECONDS
) -> Iterator[EmbeddedStack]:
    """A stack that is gone afterwards, but for its logs when a directory for them is named."""
    with temporary_home(kept=False) as home:
        environment = environment_of(home, "http://127.0.0.1:9/v1")
        environment |= {"AES_REPLICAS": replicas, "AES_RUNTIME_BUILTIN_MODEL_DELAY_SECONDS": str(model_seconds)}
        environment["AES_LOG_FORMAT"] = "json"
        stack = RunningStack(home, environment)
        try:
            stack.up()
            yield EmbeddedStack(stack)
        finally:
            if logs:
                shutil.copytree(home / "logs", logs, dirs_exist_ok=True)
            stack.down()


@dataclass
class Compose:
    """The containers of a Compose project. Each is stopped and started again as the engine does it at an update."""

    command: Sequence[str]
    """Compose's command with its options: `docker compose -f …`."""
    api_key: str
    base_urls: list[str]
    kafka: KafkaConnection | str | None = None
    grace: int = 45
    """Seconds until a container that was asked to end is killed, as in docker-compose.yml."""
    names: dict[str, str] = field(default_factory=dict)
    """Container by name of the process."""

    def processes(self) -> list[tuple[str, str]]:
        found = []
        for service in self._services():
            owner = service.split("-")[0]
            if owner in SERVICES:
                found += [(owner, name) for name in _lines([*self.command, "ps", "-q", service])]
        order = {service: place for place, service in enumerate(SERVICES)}
        found = [(service, container) for service, container in found if self._runs(container)]
        named = [(service, self._name(container)) for service, container in found]
        self.names = {name: container for (_, name), (_, container) in zip(named, found, strict=True)}
        return sorted(named, key=lambda each: (order[each[0]], each[1]))

    def restart(self, process: str) -> None:
        _run(["docker", "stop", "--time", str(self.grace), self.names[process]])
        self._start(process)

    def kill(self, process: str) -> None:
        _run(["docker", "kill", self.names[process]])
        self._start(process)

    def drain(self, process: str, grace: float) -> None:
        _run(["docker", "stop", "--time", f"{grace:.0f}", self.names[process]])
        self._start(process)

    def errors_logged(self) -> list[str]:
        found = []
        for name, container in self.names.items():
            done = subprocess.run(["docker", "logs", container], capture_output=True, text=True, check=False)
            found += [f"{name}: {error}" for error in _errors(done.stdout + done.stderr)]
        return found

    def metrics(self, process: str) -> str | None:
        """Asked from inside: the services publish no ports."""
        script = (
            "import urllib.request as r;print(r.urlopen('http://127.0.0.1:8000/metrics', timeout=5).read().decode())"
        )
        done = subprocess.run(
            ["docker", "exec", self.names[process], "python", "-c", script], capture_output=True, text=True, check=False
        )
        return done.stdout if done.returncode == 0 else None

    def _start(self, process: str) -> None:
        _run(["docker", "start", self.names[process]])
        wait_until(
            lambda: self._healthy(self.names[process]), f"{process} is healthy", within=_TIMEOUT_SECONDS, pause=0.2
        )

    def _services(self) -> list[str]:
        return _lines([*self.command, "config", "--services"])

    def _runs(self, container: str) -> bool:
        return _lines(["docker", "inspect", "--format", "{{.State.Running}}", container]) == ["true"]

    def _name(self, container: str) -> str:
        return _lines(["docker", "inspect", "--format", "{{.Name}}", container])[0].lstrip("/")

    def _healthy(self, container: str) -> bool:
        form = "{{if .State.Health}}{{.State.Health.Status}}{{else}}{{.State.Status}}{{end}}"
        return _lines(["docker", "inspect", "--format", form, container])[0] in ("healthy", "running")


def _errors(log: str) -> Iterator[str]:
    """Exceptions that were logged as errors, in the logs of services in JSON.

    Errors without one are of clients that get over an outage, such as that of a commit in a rebalance. Work that met
    the locks of others is logged with one, and tried again: on a busy machine that is to be expected.
    """
    for line in log.splitlines():
        # A process that is killed leaves half a line.
        with suppress(orjson.JSONDecodeError):
            entry = orjson.loads(line)
            if not isinstance(entry, dict) or entry.get("level") not in ("error", "critical"):
                continue
            if "exception" in entry and "StoreBusy" not in entry["exception"]:
                yield f"{entry.get('event')}: {entry['exception'][-1500:]}"


def read(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except (OSError, urllib.error.HTTPError):
        return None


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _lines(command: Sequence[str]) -> list[str]:
    return _run(command).split()
