"""`aes bench rest`: the resources that an idle stack uses, and its startup times."""

import asyncio
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from statistics import median
from typing import Final

import psutil

from benchmarks.machine import cpu_seconds, resident_bytes
from benchmarks.report import Result
from benchmarks.stack import Say, environment_of, own_home, processes_of
from deploy.local.control import take_down
from deploy.local.errors import StackError
from deploy.local.home import PROJECT_ROOT, Home
from deploy.local.services import SERVICES
from deploy.local.state import StackState

# A fresh start isn't idle yet: compilers, first query plans and consumer groups are busy.
SETTLE_SECONDS: Final = 30.0
_IMPORTS: Final = 3
_READY_WITHIN_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.02
_NAMES: Final = [service.name for service in SERVICES]


async def run(seconds: float, kills: int, say: Say) -> Result:
    """Observes the idle stack for ``seconds``, then kills each service's process ``kills`` times.

    A process's figures include its children, except for the supervisor.
    """
    async with own_home("rest") as (home, _):
        say("importing each service")
        imports = {name: await asyncio.to_thread(_import_cpu, name) for name in _NAMES}
        up = {}
        for start in ("first", "again"):
            say(f"aes up, {start}")
            await asyncio.to_thread(take_down, home, lambda _: None)
            up[start] = await _up(home)
        say(f"idle, after {SETTLE_SECONDS:.0f} s")
        await asyncio.sleep(SETTLE_SECONDS)
        before = _cpu(home)
        await asyncio.sleep(seconds)
        idle = {name: 100 * (after - before[name]) / seconds for name, after in _cpu(home).items()}
        resident = {name: resident_bytes(process) / 1e6 for name, process in _parts(home).items()}
        resident["supervisor"] = _supervisor(home).memory_info().rss / 1e6
        names = [name for name, part in StackState.read(home.state_file).parts.items() if part.service in _NAMES]
        again: dict[str, list[float]] = {name: [] for name in names}
        for name in names * kills:
            again[name].append(await _killed(home, name))
            say(f"{name} ready again after {again[name][-1]:.1f} s")
    idle["sum"], resident["sum"] = sum(idle.values()), sum(resident.values())
    ready = {name: median(found) for name, found in again.items() if found}
    return result(seconds, idle, resident, imports, up, ready)


def result(seconds: float, *figures: Mapping[str, float]) -> Result:
    """Builds the result from one mapping per figure.

    The figures are, in this order: idle CPU, memory, import time, startup time and time until ready again.
    """
    names = "idle_percent_of_a_core", "resident_megabytes", "import_cpu_seconds", "up_seconds", "ready_again_seconds"
    found = {
        name: {of: round(figure, 2) for of, figure in each.items()} for name, each in zip(names, figures, strict=True)
    }
    return Result({"seconds": seconds, **found}, {name.replace("_", " "): [each] for name, each in found.items()})


def _import_cpu(service: str) -> float:
    """Returns the CPU seconds that Python needs to start and import a compiled service."""
    code = f"import gc; gc.disable(); import libs.service_defaults, services.{service}.bootstrap"
    found = []
    for _ in range(_IMPORTS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], cwd=PROJECT_ROOT, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # The first run may have compiled its imports.
    return median(found[1:])


async def _up(home: Home) -> float:
    """Returns the seconds that `aes up` takes when nothing has to be downloaded."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "aes", "up", cwd=PROJECT_ROOT, env={**environment_of(home), "AES_PYTHON": sys.executable},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    _, said = await process.communicate()
    if process.returncode != 0:
        raise StackError("The stack didn't start.", said.decode())
    return time.perf_counter() - began


def _parts(home: Home) -> dict[str, psutil.Process]:
    return processes_of(StackState.read(home.state_file))


def _supervisor(home: Home) -> psutil.Process:
    supervisor = StackState.read(home.state_file).supervisor
    assert supervisor is not None
    return psutil.Process(supervisor.pid)


def _cpu(home: Home) -> dict[str, float]:
    times = _supervisor(home).cpu_times()
    # Without children, which are all the other processes.
    return {**cpu_seconds(_parts(home)), "supervisor": times.user + times.system}


async def _killed(home: Home, name: str) -> float:
    """Kills a process, and returns the seconds until the supervisor reports its replacement as ready."""
    began, killed = time.perf_counter(), StackState.read(home.state_file).parts[name].pid
    assert killed is not None
    psutil.Process(killed).send_signal(signal.SIGKILL)
    try:
        async with asyncio.timeout(_READY_WITHIN_SECONDS):
            while (part := StackState.read(home.state_file).parts[name]).state != "ready" or part.pid == killed:
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise StackError(
            f"{name} wasn't ready within {_READY_WITHIN_SECONDS:.0f} s.", f"See {home.log_of(name)}"
        ) from None
    return time.perf_counter() - began
