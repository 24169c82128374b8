"""Controls the stack from outside: `aes up`, `down` and `restart`."""

import asyncio
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from deploy.local.caller_settings import check_settings
from deploy.local.credentials import Credentials, ensure_key
from deploy.local.errors import StackError
from deploy.local.files import check_disk, tail
from deploy.local.home import PROJECT_ROOT, Home
from deploy.local.processes import Identity, end, end_orphans
from deploy.local.services import SERVICES
from deploy.local.stack import VARIABLE, parse_replicas, postgres_of
from deploy.local.state import ProcessState, StackState
from deploy.local.status import read_status

Show = Callable[[StackState], None]
_POLL_SECONDS = 0.1
_STOP_SECONDS = 60
# Longer than the longest pause between two attempts to restart a process.
_READY_SECONDS = 30.0
_RESTARTED_SECONDS = 180.0
# Longer than the services' grace period for finishing or releasing work.
_RESTART_GRACE_SECONDS = 15.0
# Enough for two database clusters' write-ahead logs, Kafka's first segments and the downloads.
_NEEDED_BYTES = 400 * 1024 * 1024


def bring_up(home: Home, show: Show, replicas: str | None = None) -> tuple[StackState, bool]:
    """Starts the stack unless it's running. Returns the state, and whether this call started the stack.

    If `replicas` is given, a running stack must have the same numbers of replicas. If the stack can't be started, stops
    all processes and raises StackError.
    """
    names = [service.name for service in SERVICES]
    wanted = parse_replicas(replicas, names) if replicas is not None else None
    check_settings(os.environ)
    if home.restore_marker.exists():
        raise StackError(
            f"A restore into {home.root} has started but hasn't finished.",
            f"Once no restore is running, delete {home.root} and restore again.",
        )
    home.create()
    with _one_at_a_time(home, show):
        state = StackState.read(home.state_file)
        while state.is_supervised() and state.phase not in ("starting", "running"):
            show(state)
            time.sleep(_POLL_SECONDS)
            state = StackState.read(home.state_file)
        if state.is_supervised() and state.phase == "running":
            if wanted is not None:
                _check_replicas(state, wanted)
            _await_readiness(home, show)
            return state, False
        if state.is_supervised():
            return _follow(home, None, show), True
        check_disk(home.root, _NEEDED_BYTES)
        supervisor = _start_supervisor(home, replicas or "")
        try:
            return _follow(home, supervisor, show), True
        except KeyboardInterrupt:
            supervisor.terminate()
            supervisor.wait()
            raise


def development_key(home: Home) -> str:
    """Returns the development company's key. The gateway's database must be migrated."""
    postgres = postgres_of(home, Credentials.load_or_create(home.credentials_file))
    return asyncio.run(ensure_key(home, postgres.url("gateway")))


def take_down(home: Home, show: Show) -> bool:
    """Stops the stack, even without a supervisor. Returns whether anything was running."""
    state = StackState.read(home.state_file)
    supervisor = state.supervisor.process() if state.supervisor else None
    if supervisor is not None:
        supervisor.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while state.is_supervised() and time.monotonic() < deadline:
            current = StackState.read(home.state_file)
            if current.phase == "stopping":
                show(current)
            time.sleep(_POLL_SECONDS)
        show(StackState.read(home.state_file))
        end([supervisor], signal.SIGKILL)
    orphans = end_orphans(home.root, home.postgres)
    if orphans:
        state = StackState.read(home.state_file)
        state.phase, state.parts, state.supervisor = "stopped", {}, None
        state.write(home.state_file)
    return supervisor is not None or orphans > 0


def purge(home: Home) -> None:
    """Deletes all state except downloads and the Python environment. The stack must be down."""
    home.create()
    socket_directory = postgres_of(home, Credentials.load_or_create(home.credentials_file)).socket_directory
    for directory in (socket_directory, home.postgres, home.kafka, home.objects, home.logs):
        shutil.rmtree(directory, ignore_errors=True)
    keys = (home.credentials_file, home.development_key_file, home.kafka_password_file)
    for file in (home.state_file, home.ports_file, home.restore_marker, *keys):
        file.unlink(missing_ok=True)


def parts_of(home: Home, names: Sequence[str]) -> list[str]:
    """Returns the processes with the given names or of the given services, which default to all services.

    Raises StackError if the stack isn't running or a name is unknown.
    """
    parts = _running(home).parts
    services = [service.name for service in SERVICES]
    known = [name for service in services for name, part in parts.items() if part.service == service]
    chosen: set[str] = set()
    for name in names or services:
        # The first of several processes has the service's name, which denotes all of them here.
        first = name.removesuffix("-1")
        found = [part for part in known if part == name or parts[part].service == name]
        found = found or [part for part in known if part == first]
        if not found and names:
            raise StackError(f"The stack has no service or process {name!r}.", f"Use one of: {', '.join(known)}.")
        chosen.update(found)
    return [part for part in known if part in chosen]


def restart(home: Home, part: str) -> None:
    """Restarts a process, and returns once it's ready. Raises StackError if it doesn't become ready."""
    old = _running(home).parts[part]
    if old.pid is not None:
        process = Identity(old.pid, old.started or 0).process()
        end([process] if process is not None else [], signal.SIGTERM, _RESTART_GRACE_SECONDS)
    deadline = time.monotonic() + _RESTARTED_SECONDS
    while not _is_replaced(old, new := _running(home).parts[part]):
        if time.monotonic() > deadline:
            raise StackError(
                f"{part} didn't become ready after its restart: {new.detail or new.state}", f"See {home.log_of(part)}"
            )
        time.sleep(_POLL_SECONDS)


def _check_replicas(state: StackState, wanted: Mapping[str, int]) -> None:
    for service in SERVICES:
        parts = sum(part.service == service.name for part in state.parts.values())
        if (count := parts // len(service.processes)) != wanted[service.name]:
            raise StackError(
                f"The running stack's number of {service.name} replicas is {count}, not {wanted[service.name]}.",
                "Restart it with the new number: ./aes down && ./aes up --replicas …",
            )


def _await_readiness(home: Home, show: Show) -> None:
    """Waits until all processes are ready. Raises StackError if that takes too long."""
    deadline = time.monotonic() + _READY_SECONDS
    while unready := asyncio.run(read_status(home)).unready:
        if time.monotonic() > deadline:
            named = ", ".join(f"{name} ({part.detail or part.state})" for name, part in unready.items())
            raise StackError(
                f"The stack is already running, but some processes aren't ready: {named}.",
                "Find out why with: ./aes doctor, or: ./aes logs " + next(iter(unready)),
            )
        show(StackState.read(home.state_file))
        time.sleep(_POLL_SECONDS)


def _start_supervisor(home: Home, replicas: str) -> subprocess.Popen[bytes]:
    with home.log_of("supervisor").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "deploy.local.supervisor"],
            cwd=PROJECT_ROOT,
            env={**os.environ, "AES_HOME": str(home.root), VARIABLE: replicas},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _follow(home: Home, supervisor: subprocess.Popen[bytes] | None, show: Show) -> StackState:
    """Shows a starting stack until it runs. `supervisor` is None if another caller started the stack."""
    while True:
        ended = supervisor is not None and supervisor.poll() is not None
        state = StackState.read(home.state_file)
        ours = supervisor is None or (state.supervisor is not None and state.supervisor.pid == supervisor.pid)
        if ours:
            show(state)
            if state.phase == "running":
                return state
            if state.phase == "failed":
                raise StackError(state.error, state.remedy)
            if state.phase == "stopped":
                raise StackError("The stack was stopped while it was starting.", "Start it again with: ./aes up")
        if ended or (supervisor is None and not state.is_supervised()):
            log = home.log_of("supervisor")
            raise StackError("The supervisor ended unexpectedly:\n" + "\n".join(tail(log, 15)), f"See {log}")
        time.sleep(_POLL_SECONDS)


@contextmanager
def _one_at_a_time(home: Home, show: Show) -> Iterator[None]:
    with home.start_lock.open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                show(StackState.read(home.state_file))
                time.sleep(_POLL_SECONDS)
        yield


def _is_replaced(old: ProcessState, new: ProcessState) -> bool:
    return new.state == "ready" and (new.pid, new.started) != (old.pid, old.started)


def _running(home: Home) -> StackState:
    state = StackState.read(home.state_file)
    if not (state.is_supervised() and state.phase == "running"):
        raise StackError("The stack isn't running.", "Start it with: ./aes up")
    return state
