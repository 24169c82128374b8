"""`aes bench rest`: what a stack costs that has nothing to do, and how long it takes to be ready."""

import asyncio
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Final

import psutil

from benchmarks.cpu import cpu_seconds
from benchmarks.stack import benchmark_home, environment_of, remove
from benchmarks.turns import cancel_on_termination
from deploy.local.control import take_down
from deploy.local.errors import StackError
from deploy.local.home import PROJECT_ROOT, Home
from deploy.local.services import SERVICES
from deploy.local.state import StackState

# What follows a start is no rest: compilers, first plans, groups that find each other.
SETTLE_SECONDS: Final = 30.0
_IMPORTS: Final = 3
_READY_WITHIN_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.02
_NAMES: Final = [service.name for service in SERVICES]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Rest:
    """Figures by process. Those of a process include its children, but for the supervisor's, which are the others."""

    seconds: float
    """The time for which the stack was watched at rest."""
    idle_percent_of_a_core: Mapping[str, float]
    resident_megabytes: Mapping[str, float]
    """Memory that PostgreSQL's processes share counts for each of them."""
    import_cpu_seconds: Mapping[str, float]
    """From the start of Python to the end of the service's imports, of which there are compiled files."""
    up_seconds: Mapping[str, float]
    """`aes up` with all downloads there: with empty databases, and again with those that it has made."""
    ready_again_seconds: Mapping[str, float]
    """From a SIGKILL until the supervisor finds the next process ready."""


async def run(seconds: float, kills: int, say: Say) -> Rest:
    """``kills``: how often each service's process is killed. Everything that was started is ended and removed."""
    cancel_on_termination()
    home = benchmark_home("rest-benchmark")
    await asyncio.to_thread(remove, home)
    home.create()
    try:
        say("importing each service")
        imports = {name: await asyncio.to_thread(_import_cpu, name) for name in _NAMES}
        up = {}
        for start in ("first", "again"):
            say(f"aes up, {start}")
            await asyncio.to_thread(take_down, home, lambda _: None)
            up[start] = await _up(home)
        say(f"at rest, after {SETTLE_SECONDS:.0f} s")
        await asyncio.sleep(SETTLE_SECONDS)
        before = _cpu(home)
        await asyncio.sleep(seconds)
        idle = {name: 100 * (after - before[name]) / seconds for name, after in _cpu(home).items()}
        resident = {name: _resident(members) / 1e6 for name, members in _processes(home).items()}
        names = [name for name, part in StackState.read(home.state_file).parts.items() if part.service in _NAMES]
        again: dict[str, list[float]] = {name: [] for name in names}
        for name in names * kills:
            again[name].append(await _killed(home, name))
            say(f"{name} ready again after {again[name][-1]:.1f} s")
    finally:
        await asyncio.shield(asyncio.to_thread(remove, home))
    idle["sum"], resident["sum"] = sum(idle.values()), sum(resident.values())
    killed = {name: median(found) for name, found in again.items()}
    return Rest(seconds, *(_rounded(figures) for figures in (idle, resident, imports, up, killed)))


def _import_cpu(service: str) -> float:
    code = f"import gc; gc.disable(); import libs.service_defaults, services.{service}.bootstrap"
    found = []
    for _ in range(_IMPORTS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], cwd=PROJECT_ROOT, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # The first one may have compiled what it imports.
    return median(found[1:])


async def _up(home: Home) -> float:
    """Seconds of the whole command, as it is typed."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "aes", "up", cwd=PROJECT_ROOT, env={**environment_of(home), "AES_PYTHON": sys.executable},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    _, said = await process.communicate()
    if process.returncode != 0:
        raise StackError("The stack did not start.", said.decode())
    return time.perf_counter() - began


def _processes(home: Home) -> dict[str, list[psutil.Process]]:
    """Each process of the stack with its children."""
    state = StackState.read(home.state_file)
    parts = {name: psutil.Process(part.pid) for name, part in state.parts.items() if part.pid is not None}
    found = {name: [process, *process.children(recursive=True)] for name, process in parts.items()}
    if state.supervisor is not None:
        found["supervisor"] = [psutil.Process(state.supervisor.pid)]
    return found


def _cpu(home: Home) -> dict[str, float]:
    processes = {name: members[0] for name, members in _processes(home).items()}
    times = processes["supervisor"].cpu_times()
    # Not with its children, which are all the others.
    own = {"supervisor": times.user + times.system}
    return cpu_seconds({name: process for name, process in processes.items() if name not in own}) | own


def _resident(members: list[psutil.Process]) -> float:
    total = 0.0
    for member in members:
        with suppress(psutil.NoSuchProcess):
            total += float(member.memory_info().rss)
    return total


async def _killed(home: Home, name: str) -> float:
    began, killed = time.perf_counter(), StackState.read(home.state_file).parts[name].pid
    assert killed is not None
    psutil.Process(killed).send_signal(signal.SIGKILL)
    try:
        async with asyncio.timeout(_READY_WITHIN_SECONDS):
            while (part := StackState.read(home.state_file).parts[name]).state != "ready" or part.pid == killed:
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise StackError(
            f"{name} was not ready in {_READY_WITHIN_SECONDS:.0f} s.", f"See {home.log_of(name)}"
        ) from None
    return time.perf_counter() - began


def _rounded(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: round(figure, 2) for name, figure in figures.items()}
