"""The supervisor's processes, and those of the project's services."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local.home import PROJECT_ROOT
from deploy.local.probes import is_ready
from deploy.local.processes import Command

Report = Callable[[str], None]


class ManagedProcess(ABC):
    """One process of the stack: preparation, command, readiness and completion."""

    name: str
    port: int | None

    async def prepare(self, report: Report) -> None:  # noqa: B027
        """Prepares every start, and only does what is missing."""

    @abstractmethod
    def command(self) -> Command: ...

    @abstractmethod
    async def is_ready(self) -> bool:
        """Whether the running process is ready. Never raises; takes at most two seconds."""

    async def complete(self, report: Report) -> None:  # noqa: B027
        """Completes a ready process before others use it, such as creating databases."""


@dataclass
class ServiceProcess(ManagedProcess):
    """Migrates its database at startup. ``port`` is None without an HTTP server."""

    service: str
    name: str
    role: str
    port: int | None
    log: Path
    environment: dict[str, str] = field(repr=False)

    def command(self) -> Command:
        return Command(
            arguments=[sys.executable, "-m", f"services.{self.service}", *self.role.split()],
            environment=self.environment,
            directory=PROJECT_ROOT,
            log=self.log,
        )

    async def is_ready(self) -> bool:
        return self.port is None or await is_ready(self.port, self.service)
