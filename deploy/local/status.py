"""Reads the current state of the stack from its processes."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from deploy.local.home import Home
from deploy.local.probes import broker_answers, is_ready, postgres_listens
from deploy.local.processes import Identity, listens
from deploy.local.state import ProcessState, StackState


@dataclass(frozen=True)
class Status:
    state: str
    """The supervisor's phase, `degraded` (a process isn't ready) or `unsupervised` (processes without a supervisor)."""
    base_url: str
    parts: dict[str, ProcessState]
    error: str = ""
    """Why the last start failed, and what to do."""

    @property
    def unready(self) -> dict[str, ProcessState]:
        return {name: part for name, part in self.parts.items() if part.state != "ready"}

    def as_json(self) -> dict[str, Any]:
        services: dict[str, Any] = {}
        for service in dict.fromkeys(part.service for part in self.parts.values()):
            parts = {name: _as_json(part) for name, part in self.parts.items() if part.service == service}
            services[service] = next(iter(parts.values()))
            if [*parts] != [service]:
                unready = [part["state"] for part in parts.values() if part["state"] != "ready"]
                processes = [{"name": name, **part} for name, part in parts.items()]
                services[service] |= {"state": unready[0] if unready else "ready", "processes": processes}
        return {"state": self.state, "base_url": self.base_url, "services": services}


def _as_json(part: ProcessState) -> dict[str, Any]:
    return {"pid": part.pid, "port": part.port, "state": part.state, "restarts": part.restarts}


async def read_status(home: Home) -> Status:
    state = StackState.read(home.state_file)
    parts = await asyncio.gather(*map(_examine, state.parts.values()))
    phase: str = state.phase
    if not state.is_supervised():
        running = any(part.pid is not None for part in parts)
        phase = "unsupervised" if running else "failed" if phase == "failed" else "stopped"
    elif phase == "running" and any(part.state != "ready" for part in parts):
        phase = "degraded"
    error = f"{state.error}\n{state.remedy}".strip() if phase == "failed" else ""
    return Status(phase, state.base_url, dict(zip(state.parts, parts, strict=True)), error)


async def _examine(part: ProcessState) -> ProcessState:
    """Returns the process's current state."""
    if part.pid is None or Identity(part.pid, part.started or 0).process() is None:
        return replace(part, pid=None, state="stopped" if part.state in ("ready", "starting") else part.state)
    return replace(part, state="not ready") if part.state == "ready" and not await _works(part) else part


async def _works(part: ProcessState) -> bool:
    if part.port is None:
        return True
    # In a thread, so that other probes keep their time limits.
    if part.pid is None or not await asyncio.to_thread(listens, part.pid, part.port):
        return False
    if part.service == "postgres":
        return await postgres_listens(part.port)
    if part.service == "kafka":
        return await broker_answers(part.port)
    return await is_ready(part.port, part.service)
