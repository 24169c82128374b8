"""Reads the current state of the stack from its processes."""

import asyncio
from dataclasses import dataclass
from typing import Any

from deploy.local.home import Home
from deploy.local.probes import broker_answers, is_ready, postgres_listens
from deploy.local.processes import Identity, listens
from deploy.local.state import ProcessState, StackState


@dataclass(frozen=True)
class ProcessStatus:
    name: str
    service: str
    pid: int | None
    port: int | None
    state: str
    restarts: int
    detail: str
    asked_restarts: int = 0

    def as_json(self) -> dict[str, Any]:
        return {"pid": self.pid, "port": self.port, "state": self.state, "restarts": self.restarts}


@dataclass(frozen=True)
class Status:
    state: str
    """The supervisor's phase, `degraded` (a process isn't ready) or `unsupervised` (processes without a supervisor)."""
    base_url: str
    parts: list[ProcessStatus]
    error: str = ""
    """Why the last start failed, and what to do."""

    @property
    def unready(self) -> list[ProcessStatus]:
        return [part for part in self.parts if part.state != "ready"]

    def as_json(self) -> dict[str, Any]:
        services: dict[str, Any] = {}
        for service in dict.fromkeys(part.service for part in self.parts):
            parts = [part for part in self.parts if part.service == service]
            first = parts[0].as_json()
            if len(parts) > 1 or parts[0].name != service:
                unready = [part.state for part in parts if part.state != "ready"]
                first["state"] = unready[0] if unready else "ready"
                first["processes"] = [{"name": part.name, **part.as_json()} for part in parts]
            services[service] = first
        return {"state": self.state, "base_url": self.base_url, "services": services}


async def read_status(home: Home) -> Status:
    state = StackState.read(home.state_file)
    parts = await asyncio.gather(*(_examine(name, part) for name, part in state.parts.items()))
    phase: str = state.phase
    if not state.is_supervised():
        running = any(part.pid is not None for part in parts)
        phase = "unsupervised" if running else "failed" if phase == "failed" else "stopped"
    elif phase == "running" and any(part.state != "ready" for part in parts):
        phase = "degraded"
    error = f"{state.error}\n{state.remedy}".strip() if phase == "failed" else ""
    return Status(phase, state.base_url, list(parts), error)


async def _examine(name: str, part: ProcessState) -> ProcessStatus:
    alive = part.pid is not None and Identity(part.pid, part.started or 0).process() is not None
    state: str = part.state
    if not alive and state in ("ready", "starting"):
        state = "stopped"
    elif state == "ready" and not await _works(part):
        state = "not ready"
    pid = part.pid if alive else None
    return ProcessStatus(name, part.service, pid, part.port, state, part.restarts, part.detail, part.asked_restarts)


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
