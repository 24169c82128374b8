"""Processes that the supervisor manages."""

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
    """A process of the stack."""

    name: str
    port: int | None

    async def prepare(self, report: Report) -> None:  # noqa: B027
        """Runs before each start, and does only what's still missing."""

    @abstractmethod
    def command(self) -> Command: ...

    @abstractmethod
    async def is_ready(self) -> bool:
        """Never raises an exception, and takes at most two seconds."""

    async def complete(self, report: Report) -> None:  # noqa: B027
        """Runs once the process is ready and before others use it, for example to create databases."""


@dataclass
class ServiceProcess(ManagedProcess):
    """A service's process, which migrates its database at startup."""

    service: str
    name: str
    role: str
    port: int
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
        return await is_ready(self.port, self.service)
