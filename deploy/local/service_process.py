"""A process of one of the project's own services."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local.home import PROJECT_ROOT
from deploy.local.managed_process import Report
from deploy.local.probes import is_ready
from deploy.local.processes import Command


@dataclass
class ServiceProcess:
    service: str
    name: str
    role: str
    port: int | None
    """Port of its HTTP server; None without one."""
    log: Path
    environment: dict[str, str] = field(repr=False)

    async def prepare(self, report: Report) -> None:
        """Services migrate their own database when they start."""

    def command(self) -> Command:
        return Command(
            arguments=[sys.executable, "-m", f"services.{self.service}", *self.role.split()],
            environment=self.environment,
            directory=PROJECT_ROOT,
            log=self.log,
        )

    async def is_ready(self) -> bool:
        return self.port is None or await is_ready(self.port, self.service)

    async def complete(self, report: Report) -> None:
        """A ready service needs nothing more."""
