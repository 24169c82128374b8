"""A write that is carried out by a command to its owner."""

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
    """Sends the command of an idempotent write. Returns the event that ends it; what the owner refuses is raised."""

    write: Write
    commands: CommandDispatcher

    async def __call__(self, command: Command) -> Received:
        return await self.commands.run(self.write, command)

    async def new(self, command: type[Command], make: Make) -> Received:
        """For a command that needs its own id, or more than the body: a repeat does not make it again."""
        return await self.commands.create(self.write, command, make)


async def _submission(write: IdempotentWrite, door: DoorDep) -> Submission:
    return Submission(write, door.commands)


Submit = Annotated[Submission, Depends(_submission)]
"""Stands behind the body, whose hash it needs."""
