"""The embedded stack, started and asked the way a user does: by the `aes` command."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
import psutil

from cli.installation import embedded_bus
from deploy.local.credentials import Credentials
from deploy.local.home import Home
from deploy.local.ports import choose_free
from deploy.local.processes import Identity
from deploy.local.stack import postgres_of
from deploy.local.state import StackState
from deploy.local.status import read_status
from libs.eventing import KafkaConnection
from services.gateway.administration import Administration, administration
from tests.support.server_directories import directories, new_directory
from tests.support.waiting import wait_until

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
PARTS = ("gateway", "registry", "runtime", "kafka", "postgres")
# The one address of this machine that webhooks may lead to; nothing else listens there.
RECEIVERS = "127.0.0.77"
_PREFIX = "aes-e2e-"
_START_SECONDS, _COMMAND_SECONDS = 600, 300
_READY_AFTER_FAILURE_SECONDS = 20


@dataclass
class RunningStack:
    home: Path
    environment: dict[str, str]
    base_url: str = ""
    api_key: str = ""
    _ready_seconds: float = 300

    def up(self) -> None:
        document = self.aes("up", limit=_START_SECONDS)
        self.base_url, self.api_key = document["base_url"], document["api_key"]
        assert self.aes("status")["base_url"] == self.base_url

    def down(self) -> None:
        self.aes("down", "--purge", "--yes")

    def aes(self, *arguments: str, limit: float = _COMMAND_SECONDS) -> dict[str, Any]:
        """Run a command; returns what it prints with ``--json``."""
        command = [sys.executable, str(ROOT / "aes"), *arguments, "--json"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=limit)
        assert done.returncode == 0, f"aes {' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}"
        document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return document

    def services(self) -> dict[str, dict[str, Any]]:
        """As `aes status` shows them, without a process for every look."""
        with ThreadPoolExecutor(1) as outside_of_any_loop:
            status = outside_of_any_loop.submit(lambda: asyncio.run(read_status(Home(self.home)))).result()
        found: dict[str, dict[str, Any]] = status.as_json()["services"]
        return found

    def pid(self, part: str) -> int:
        """Pid of the process itself: of the one with that name, or else of the first of that service."""

        def alive() -> int | None:
            # As the supervisor notes it: to ask all parts how they are takes seconds on a busy machine.
            noted = StackState.read(Home(self.home).state_file).parts
            process = next(each for name, each in noted.items() if part in (name, each.service))
            known = None if process.pid is None else Identity(process.pid, process.started or 0)
            return process.pid if known is not None and known.process() is not None else None

        return wait_until(alive)

    @property
    def kafka(self) -> KafkaConnection:
        return embedded_bus(Home(self.home), self.services()["kafka"]["port"], "").kafka

    def administer(self, work: Callable[[Administration], Awaitable[T]]) -> T:
        """An operator's work on companies, users and keys, without a process for every command."""

        async def administer() -> T:
            async with administration(self.database("gateway")) as gateway:
                return await work(gateway)

        with ThreadPoolExecutor(1) as outside_of_any_loop:
            return outside_of_any_loop.submit(lambda: asyncio.run(administer())).result()

    def database(self, service: str) -> str:
        """The address of a service's database."""
        home = Home(self.home)
        return postgres_of(home, Credentials.load_or_create(home.credentials_file)).url(service)

    def metrics(self, part: str) -> str:
        """Reads a service's metrics."""
        return self._get(part, "/metrics").raise_for_status().text

    def _get(self, part: str, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.services()[part]['port']}{path}", timeout=30, trust_env=False)

    def kill(self, part: str, how: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal to a part; returns the pid that it had."""
        pid = self.pid(part)
        os.kill(pid, how)
        return pid

    def kill_everything(self) -> None:
        """The supervisor first, so that nothing is started again."""
        parts = [psutil.Process(self.pid(part)) for part in PARTS]
        supervisor = parts[0].parent()
        assert supervisor is not None
        for process in (supervisor, *parts):
            process.kill()
        psutil.wait_procs([supervisor, *parts], timeout=60)

    @contextmanager
    def stopped(self, *parts: str) -> Iterator[None]:
        """With processes that exist and do nothing."""
        pids = [self.pid(part) for part in parts]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    @contextmanager
    def nobody_restarts(self) -> Iterator[None]:
        """While the supervisor does nothing, what is killed stays dead."""
        supervisor = psutil.Process(self.pid("gateway")).parent()
        supervisor.suspend()
        try:
            yield
        finally:
            supervisor.resume()

    def wait_ready(self) -> None:
        """Until every part works. Once that was not so in time, later tests do not wait as long again."""

        def ready() -> bool:
            parts = self.services()
            return all(parts[part]["state"] == "ready" for part in PARTS)

        try:
            wait_until(ready, within=self._ready_seconds, pause=0.3)
        except AssertionError as problem:
            self._ready_seconds = _READY_AFTER_FAILURE_SECONDS
            raise AssertionError(f"Not every part is ready:\n{self._readiness()}") from problem

    def _readiness(self) -> str:
        """Each part's state, and what a service itself says of it."""
        lines = []
        for name, part in self.services().items():
            told = ""
            if name not in ("kafka", "postgres"):
                try:
                    told = self._get(name, "/health/ready").text
                except (httpx.HTTPError, httpx.InvalidURL) as problem:
                    # It does not answer, or has no port yet.
                    told = repr(problem)
            lines.append(f"{name}: {part['state']} {told}")
        return "\n".join(lines)

    def wait_replaced(self, part: str, pid: int) -> None:
        """Until another process than that one does the part's work."""
        wait_until(lambda: self.services()[part]["pid"] not in (None, pid))
        self.wait_ready()


@contextmanager
def temporary_home(*, kept: bool = True) -> Iterator[Path]:
    """A state directory that is gone afterwards; AES_E2E_HOME names one to be ``kept``: used and left running."""
    given = os.environ.get("AES_E2E_HOME")
    if given and kept:
        Path(given).mkdir(parents=True, exist_ok=True)
        yield Path(given).resolve()
        return
    end_abandoned_stacks()
    home = new_directory(_PREFIX)
    # PostgreSQL runs as another user when the tests run as root.
    home.chmod(0o711)
    owner = Identity.of(os.getpid())
    (home / "owner.json").write_text(json.dumps([owner.pid, owner.started]))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def environment_of(home: Path, model_url: str) -> dict[str, str]:
    """The caller's environment without settings of the service, and with the model of the tests."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("AES_", "PG", "OPENAI_"))}
    shared_cache = Home.from_environment()
    shared_cache.create()
    cache = home / "cache"
    if not cache.exists():
        # It may point into a checkout that is gone.
        cache.unlink(missing_ok=True)
        cache.symlink_to(shared_cache.cache)
    return {
        **own,
        "AES_PYTHON": sys.executable,
        "AES_HOME": str(home),
        # Its usual port may be taken a moment later, by another stack that starts at the same time.
        "AES_GATEWAY_PORT": str(remembered_port(home, "gateway-port")),
        "OPENAI_BASE_URL": model_url,
        "OPENAI_API_KEY": "sk-of-the-tests",
        "AES_OUTBOUND_NETWORKS": RECEIVERS,
        # This machine, which the tool must refuse all the same.
        "AES_RUNTIME_HTTP_GET_HOSTS": f"localhost:{urlsplit(model_url).port},127.0.0.1:{urlsplit(model_url).port}",
    }


def remembered_port(home: Path, name: str = "model-port") -> int:
    """A port that is free now; the same again for a stack that is left running."""
    file = home / name
    if not file.exists():
        file.write_text(str(choose_free()))
    return int(file.read_text())


def end_abandoned_stacks() -> None:
    """End the stacks of test runs that were killed."""
    for home in list(directories(_PREFIX)):
        try:
            pid, started = json.loads((home / "owner.json").read_text())
        except (OSError, ValueError):
            continue
        if Identity(pid, started).process() is None:
            _clear_away(home)


def _clear_away(home: Path) -> None:
    try:
        RunningStack(home, environment_of(home, "http://127.0.0.1:9/v1")).down()
    except (AssertionError, OSError, ValueError, subprocess.TimeoutExpired) as problem:
        # What another version of the tests left, in whatever state, must not keep these from running.
        warnings.warn(f"{home}, left by a killed run of tests, cannot be ended: {problem}", stacklevel=2)
    shutil.rmtree(home, ignore_errors=True)
