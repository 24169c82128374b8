"""The file in which the supervisor publishes the state of the stack."""

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from deploy.local.files import read_json, write_atomically
from deploy.local.processes import Identity

Phase = Literal["starting", "running", "stopping", "stopped", "failed"]
ProcessPhase = Literal[
    "waiting", "preparing", "starting", "ready", "not ready", "restarting", "failing", "stopping", "stopped"
]


@dataclass
class ProcessState:
    service: str
    state: ProcessPhase = "waiting"
    port: int | None = None
    pid: int | None = None
    started: float | None = None
    restarts: int = 0
    asked_restarts: int = 0
    """The number of requested restarts."""
    detail: str = ""
    seconds: float | None = None
    """The number of seconds from the last start until the process was ready."""


@dataclass
class StackState:
    supervisor: Identity | None = None
    phase: Phase = "stopped"
    base_url: str = ""
    detail: str = ""
    error: str = ""
    remedy: str = ""
    parts: dict[str, ProcessState] = field(default_factory=dict)
    since: float = field(default_factory=time.time)

    def write(self, file: Path) -> None:
        write_atomically(file, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> "StackState":
        document: dict[str, Any] = read_json(file)
        if not document:
            return cls()
        supervisor = document.pop("supervisor")
        parts = {name: ProcessState(**part) for name, part in document.pop("parts").items()}
        return cls(supervisor=Identity(**supervisor) if supervisor else None, parts=parts, **document)

    def is_supervised(self) -> bool:
        """Returns whether the supervisor that wrote this state is still running."""
        return self.supervisor is not None and self.supervisor.process() is not None
