"""The port of a process that the supervisor runs."""

from collections.abc import Callable
from typing import Protocol

from deploy.local.processes import Command

Report = Callable[[str], None]


class ManagedProcess(Protocol):
    """One process of the stack: preparation, command, readiness and completion."""

    @property
    def name(self) -> str: ...

    @property
    def port(self) -> int | None: ...

    async def prepare(self, report: Report) -> None:
        """Prepares the start. Runs before every start and does only what is missing."""

    def command(self) -> Command: ...

    async def is_ready(self) -> bool:
        """Tells whether the running process is ready. Never raises; takes two seconds at most."""

    async def complete(self, report: Report) -> None:
        """Completes a ready process before others use it, such as creating databases."""
