"""Restarts processes of services one after the other, from outside: what `aes restart` does.

The supervisor starts again what ends; here a process is asked to end, and the next one's readiness waited for.
"""

import signal
import time
from collections.abc import Sequence

from deploy.local.errors import StackError
from deploy.local.home import Home
from deploy.local.processes import Identity, end
from deploy.local.services import SERVICES
from deploy.local.state import ProcessState, StackState

_POLL_SECONDS = 0.05
# Longer than the grace that services have to finish or hand back what is in work.
_GRACE_SECONDS = 15.0
_READY_SECONDS = 180.0


def parts_of(home: Home, names: Sequence[str]) -> list[str]:
    """Resolves names of services or processes to processes; no names mean all services.

    Raises StackError when the stack does not run or a name is unknown.
    """
    parts = _running(home).parts
    services = [service.name for service in SERVICES]
    known = [name for service in services for name, part in parts.items() if part.service == service]
    chosen: set[str] = set()
    for name in names or services:
        # The first of several processes bears the service's name, which here stands for all of them.
        first = name.removesuffix("-1")
        found = [part for part in known if part == name or parts[part].service == name]
        found = found or [part for part in known if part == first]
        if not found and names:
            raise StackError(f"{name!r} is no service of the stack.", f"Name some of: {', '.join(known)}.")
        chosen.update(found)
    return [part for part in known if part in chosen]


def restart(home: Home, part: str) -> None:
    """Restarts a process; returns when its successor is ready. Raises StackError when none comes."""
    old = _running(home).parts[part]
    if old.pid is not None:
        process = Identity(old.pid, old.started or 0).process()
        end([process] if process is not None else [], signal.SIGTERM, _GRACE_SECONDS)
    deadline = time.monotonic() + _READY_SECONDS
    while not _is_replaced(old, new := _running(home).parts[part]):
        if time.monotonic() > deadline:
            raise StackError(f"{part} is not ready again: {new.detail or new.state}", f"See {home.log_of(part)}")
        time.sleep(_POLL_SECONDS)


def _is_replaced(old: ProcessState, new: ProcessState) -> bool:
    return new.state == "ready" and (new.pid, new.started) != (old.pid, old.started)


def _running(home: Home) -> StackState:
    state = StackState.read(home.state_file)
    if not (state.is_supervised() and state.phase == "running"):
        raise StackError("The stack does not run.", "Start it with: ./aes up")
    return state
