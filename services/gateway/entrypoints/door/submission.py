"""Executes a write by sending a command to the service that owns the entity."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends

from libs.contracts.messages import Command, Received
from services.gateway.domain.idempotency import Write
from services.gateway.entrypoints.door.application import DoorDep
from services.gateway.entrypoints.door.writes import IdempotentWrite
from services.gateway.use_cases.command_dispatcher import CommandDispatcher, Make


@dataclass(frozen=True, slots=True)
class Submission:
    """Sends an idempotent write's command. Returns its terminal event, or raises the service's error."""

    write: Write
    commands: CommandDispatcher

    async def __call__(self, command: Command, *, accepted_within: float | None = None) -> Received:
        """``accepted_within``: the timeout in seconds for a service that calls others before it accepts the command."""
        return await self.commands.run(self.write, command, accepted_within=accepted_within)

    async def new(self, command: type[Command], make: Make) -> Received:
        """Sends a command built from its own ID or from more than the body. A retry doesn't build it again."""
        return await self.commands.create(self.write, command, make)


async def _submission(write: IdempotentWrite, door: DoorDep) -> Submission:
    return Submission(write, door.commands)


Submit = Annotated[Submission, Depends(_submission)]
"""Must be declared after the body, because it hashes the body."""
