"""What the supervisor needs to know about anything it runs."""

from collections.abc import Callable
from typing import Protocol

from deploy.local.processes import Command

Report = Callable[[str], None]


class ManagedProcess(Protocol):
    """One process of the stack and what it takes to bring it up."""

    @property
    def name(self) -> str: ...

    @property
    def port(self) -> int | None: ...

    async def prepare(self, report: Report) -> None:
        """Everything before the process starts. Runs before every start and does only what is missing."""
        ...

    def command(self) -> Command: ...

    async def is_ready(self) -> bool:
        """Whether the running process does its work. Never raises; takes two seconds at most."""
        ...

    async def complete(self, report: Report) -> None:
        """What must be done in the ready part before others may use it, such as creating databases."""
        ...
