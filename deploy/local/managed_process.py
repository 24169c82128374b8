"""Processes managed by the supervisor, including those of the project's services."""

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
    """A process of the stack: preparation, command, readiness and completion."""

    name: str
    port: int | None

    async def prepare(self, report: Report) -> None:  # noqa: B027
        """Prepares each start, and only does what's missing."""

    @abstractmethod
    def command(self) -> Command: ...

    @abstractmethod
    async def is_ready(self) -> bool:
        """Returns whether the running process is ready. Never raises, and takes at most two seconds."""

    async def complete(self, report: Report) -> None:  # noqa: B027
        """Completes a ready process before others use it, for example by creating databases."""


@dataclass
class ServiceProcess(ManagedProcess):
    """A service's process. It migrates its database at startup. ``port`` is None without an HTTP server."""

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
